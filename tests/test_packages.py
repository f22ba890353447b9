"""`.ci/packages` installs all that is missing at once, or says truly why not."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
SCRIPT = pathlib.Path(__file__).resolve().parents[1] / ".ci" / "packages"
APT = '#!/bin/sh\necho "$*" >>asked\necho "a mirror is gone" >&2\nexit $APT_CODE\n'
ALL = "slurm-wlm munge chromium"


class Clone:
    """A copy of the script in a folder of its own, with stand-ins for `./run`, `id` and `apt-get`."""

    def __init__(self, root: pathlib.Path):
        self.root, self.tools = root, root / "tools"
        for folder in (self.tools, root / ".ci"):
            folder.mkdir()
        shutil.copy(SCRIPT, root / ".ci")
        for name in ("sh", "dirname", "readlink"):
            (self.tools / name).symlink_to(shutil.which(name) or pytest.skip(f"{name} is not on this machine"))
        self.write(root / "run", '#!/bin/sh\necho "$NO_HOSTS"\n')
        self.tool("id", '#!/bin/sh\necho "$ID"\n')

    def write(self, path: pathlib.Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def tool(self, name: str, text: str = "") -> None:
        self.write(self.tools / name, text)

    def prints(self, no_hosts: str = "", user: int = 0, apt_code: int = 0) -> str:
        given = {"PATH": str(self.tools), "NO_HOSTS": no_hosts, "ID": str(user), "APT_CODE": str(apt_code)}
        command = [self.root / ".ci/packages"]
        return subprocess.run(command, env=given, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout

    def asked(self) -> list[str]:
        path = self.root / "asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> Clone:
    return Clone(tmp_path)


def test_all_that_is_missing_is_installed_at_once(clone: Clone):
    clone.tool("apt-get", APT)
    assert clone.prints() == ""
    assert clone.asked() == ["-qq update", f"-qq install --yes --no-install-recommends {ALL}"]


def test_what_is_there_is_not_installed(clone: Clone):
    clone.tool("apt-get", APT)
    for name in ("slurmctld", "slurmd", "srun", "munged"):
        clone.tool(name)
    clone.prints()
    assert clone.asked()[1:] == ["-qq install --yes --no-install-recommends chromium"]
    clone.tool("chromium")
    assert clone.prints() == "" and len(clone.asked()) == 2


def test_slurm_is_not_installed_where_it_could_not_run(clone: Clone):
    clone.tool("apt-get", APT)
    assert clone.prints(no_hosts="only root can make them") == "ci: SKIPPED: tests of Slurm: only root can make them\n"
    assert clone.asked()[1:] == ["-qq install --yes --no-install-recommends chromium"]


def test_the_reason_is_the_one_that_holds(clone: Clone):
    skipped = f"ci: SKIPPED: tests of {ALL}: "
    assert clone.prints() == f"{skipped}not installed, and there is no apt-get to install them\n"
    clone.tool("apt-get", APT)
    assert clone.prints(user=7) == f"{skipped}not installed, and only root can install them\n"
    assert clone.asked() == []
    assert clone.prints(apt_code=100) == f"{skipped}apt-get could not install them: a mirror is gone\n"
