"""The report on known vulnerabilities: what is allowed, and that nothing passes for want of an answer."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.once
spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
assert spec is not None and spec.loader is not None
audit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(audit)

REPORT = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "local", "skip_reason": "not on PyPI"},
        {
            "name": "bad",
            "version": "2.0",
            "vulns": [
                {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.1"]},
                {"id": "PYSEC-2", "fix_versions": []},
            ],
        },
    ]
}


def result(monkeypatch, capsys, allowed: str, report=REPORT) -> tuple[int, str]:
    monkeypatch.setattr(audit, "probe", lambda: None)
    monkeypatch.setattr(audit, "audit", lambda *requirements: report)
    monkeypatch.setattr(audit.pathlib.Path, "read_text", lambda path: allowed)
    return audit.main(), capsys.readouterr().out


def test_an_advisory_that_is_not_allowed_fails(monkeypatch, capsys):
    code, output = result(monkeypatch, capsys, "bad==2.0 CVE-1 It is out of reach.\n")
    assert code == 1
    assert "bad==2.0: PYSEC-1 CVE-1, fixed in 2.1: It is out of reach.\n" in output
    assert "bad==2.0: PYSEC-2: NOT ALLOWED\n" in output and "2 advisories, 1 of them not allowed" in output


@pytest.mark.parametrize("allowed", ["bad==2.0 PYSEC-1 A.\nbad==2.0 PYSEC-2 B.", "# all\n\nbad==2.0 * All of them."])
def test_those_that_are_allowed_do_not(monkeypatch, capsys, allowed):
    assert result(monkeypatch, capsys, allowed)[0] == 0


def test_another_version_is_not_allowed(monkeypatch, capsys):
    assert result(monkeypatch, capsys, "bad==1.0 * All of them.")[0] == 1


def test_where_no_package_could_be_looked_up_it_is_skipped(monkeypatch, capsys):
    code, output = result(monkeypatch, capsys, "", {"dependencies": REPORT["dependencies"][1:2]})
    assert code == 0 and output.startswith("audit: SKIPPED: pip-audit could not look up any package: ['not on PyPI']")


def test_where_even_the_probe_has_no_advisories_it_is_skipped(monkeypatch, capsys):
    monkeypatch.setattr(audit, "audit", lambda *requirements: {"dependencies": REPORT["dependencies"][:1]})
    assert audit.main() == 0
    assert capsys.readouterr().out.startswith("audit: SKIPPED: pip-audit finds no advisories for pip==19.0")


@pytest.mark.parametrize("line", ["bad==2.0", "bad==2.0 CVE-1", "bad CVE-1 It is out of reach."])
def test_an_entry_without_a_version_or_a_reason_is_refused(line):
    with pytest.raises(ValueError, match=re.escape(f"line 1 of the allow-list is {line!r}")):
        audit.read_allowed(line)


def test_the_list_is_of_locked_versions():
    locked = (ROOT / "requirements.lock").read_text()
    for package, _ in audit.read_allowed((ROOT / ".ci" / "advisories.txt").read_text()):
        assert re.search(f"^{re.escape(package)}[ ;]", locked, re.MULTILINE), package
