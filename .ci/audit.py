"""Reports the known vulnerabilities of the locked packages, and fails on those that `advisories.txt` does not allow.

It is skipped, with the reason, where no advisories can be had. pip-audit runs apart from the locked environment.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALLOWED = ROOT / ".ci" / "advisories.txt"
AUDITOR = "pip-audit==2.10.1"
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PROBE = "pip==19.0"  # It has advisories. Where pip-audit finds none, it gets its answers from a mirror without them.
AUDIT_S = 600.0
ANY = "*"  # Stands for all advisories of a package's version.


class Advisory(NamedTuple):
    """A known vulnerability of a package, as "name==version": the names it goes by, and the versions without it."""

    package: str
    names: tuple[str, ...]
    fixed_in: tuple[str, ...]


class Unavailable(Exception):
    """No advisories can be had; the message says why."""


def main() -> int:
    """Prints the report; returns the exit code: 1 if an advisory is not allowed."""
    try:
        probe()
        found = advisories(audit(*LOCKS))
    except Unavailable as error:
        print(f"audit: SKIPPED: {error}")
        return 0
    allowed = read_allowed(ALLOWED.read_text())
    bad = 0
    for each in found:
        reason = reason_for(each, allowed)
        bad += not reason
        fixed = f", fixed in {', '.join(each.fixed_in)}" if each.fixed_in else ""
        print(f"audit: {each.package}: {' '.join(each.names)}{fixed}: {reason or 'NOT ALLOWED'}")
    print(f"audit: {len(found)} advisories, {bad} of them not allowed by {ALLOWED.relative_to(ROOT)}")
    return 1 if bad else 0


def probe() -> None:
    """Raises Unavailable if no advisories can be had here."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(PROBE)
        file.flush()
        if not advisories(audit(pathlib.Path(file.name))):
            raise Unavailable(f"pip-audit finds no advisories for {PROBE}, which has some")


def audit(*requirements: pathlib.Path) -> dict[str, Any]:
    """What pip-audit finds in files of requirements, for the running Python.

    Raises:
      Unavailable: there is no uvx to run it, or it fails.
    """
    uvx = next(filter(None, (shutil.which("uvx", path=str(ROOT / ".uv" / "bin")), shutil.which("uvx"))), None)
    if uvx is None:
        raise Unavailable("there is no uvx to run pip-audit")
    options = ["--no-deps", "--disable-pip", "--format", "json", "--desc", "off", "--progress-spinner", "off"]
    files = [word for path in requirements for word in ("-r", str(path))]
    command = [uvx, "--python", sys.executable, "--from", AUDITOR, "pip-audit", *files, *options]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=AUDIT_S)
        return json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"pip-audit: {error}") from error
    except ValueError as error:
        raise Unavailable(f"pip-audit: {done.stderr.strip()[-300:]}") from error


def advisories(report: Mapping[str, Any]) -> list[Advisory]:
    """The advisories in a report of pip-audit.

    Raises:
      Unavailable: it could look no package up.
    """
    packages = report["dependencies"]
    known = [each for each in packages if "vulns" in each]
    if not known:
        raise Unavailable(
            f"pip-audit could not look up any package: {[each.get('skip_reason') for each in packages][:1]}"
        )
    return [
        Advisory(
            f"{each['name']}=={each['version']}", (found["id"], *found.get("aliases", ())), tuple(found["fix_versions"])
        )
        for each in known
        for found in each["vulns"]
    ]


def read_allowed(text: str) -> dict[tuple[str, str], str]:
    """The reasons in an allow-list, by package and advisory.

    Raises:
      ValueError: a line has no reason.
    """
    allowed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            package, advisory, reason = [*line.split(maxsplit=2), "", ""][:3]
            if not reason or "==" not in package:
                raise ValueError(f"line {number} of the allow-list is {line!r}, not PACKAGE==VERSION ADVISORY REASON")
            allowed[package, advisory] = reason
    return allowed


def reason_for(advisory: Advisory, allowed: Mapping[tuple[str, str], str]) -> str:
    """Why an advisory is allowed; empty if it isn't."""
    return next(
        (allowed[advisory.package, name] for name in (*advisory.names, ANY) if (advisory.package, name) in allowed), ""
    )


if __name__ == "__main__":
    sys.exit(main())
