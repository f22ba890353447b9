"""The set-up: `./run`, `.ci/run`, `.ci/packages`."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
ROOT = pathlib.Path(__file__).resolve().parents[1]
JAXES = ("cuda12", "tpu")
TOOLS = [
    "awk",
    "cat",
    "chmod",
    "cp",
    "df",
    "diff",
    "dirname",
    "env",
    "flock",
    "grep",
    "ln",
    "mkdir",
    "mktemp",
    "readlink",
    "rm",
]
TOOLS += ["sed", "sha256sum", "sh", "sleep", "true"]

# Stands in for uv: counts what it installs, locks what an accelerator adds, and fails where a file `broken` lies in
# the repository.
FAKE_UV = f"""#!/bin/sh
case $1 in
    --version) ;;
    venv) echo "$*" >asked; for venv; do :; done; mkdir -p "$venv/bin" "$venv/lib/python3.10/site-packages"
        ln -s "{os.path.realpath(sys.executable)}" "$venv/bin/python" ;;
    pip) case $2 in
        sync) sleep 0.2; [ ! -e broken ] && echo "installed $*" >>installs ;;
        compile) words="$*"; while [ "$1" != -o ]; do shift; done; cat wanted.lock >"$2"
            for jax in cuda12 tpu; do
                case $words in
                    *"--extra $jax "*) printf '    # via numpy\\n%s==1.0\\n    # via jax\\n' $jax >>"$2" ;;
                esac
            done ;;
        esac ;;
esac
"""


# Stands in for a Python of another version, which can do no more than set uv up.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-c import sys"*) echo "$0" ;;
    "-m venv") mkdir -p .uv/bin && cp uv .uv/bin/ && ln -s uv .uv/bin/python ;;
    *) exit 1 ;;
esac
"""


class House:
    """A copy of `run` in a folder of its own, with the tools every Linux has, no Python and a stand-in for uv."""

    def __init__(self, root: pathlib.Path, tools: pathlib.Path):
        self.root, self.tools = root, tools
        (root / ".uv/bin").mkdir(parents=True)
        shutil.copy(ROOT / "run", root)
        self.write("requirements.lock", "numpy==1.0\n")
        for jax in JAXES:
            self.write(f"requirements-{jax}.lock", f"{jax}==1.0\n    # via jax\n")
        self.write(".uv/bin/uv", FAKE_UV).chmod(0o755)

    def write(self, name: str, text: str) -> pathlib.Path:
        (self.root / name).write_text(text)
        return self.root / name

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.tools), "HOME": str(self.root / "no home")} | more

    def run(self, *command: str, entry: str = "", cwd: str = "/", **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [entry or str(self.root / "run"), *command],
            cwd=cwd,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def installs(self) -> int:
        path = self.root / "installs"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def house(tmp_path: pathlib.Path) -> House:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"{tool} is not on this machine"))
    return House(tmp_path / "a house", tools)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_without_a_command_run_says_how_to_use_it(house: House, arguments: tuple[str, ...]):
    result = house.run(*arguments)
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: ./run COMMAND")
    assert house.installs() == 0


def test_environment_is_built_once_and_updated_in_place_when_the_lock_changes(house: House):
    first = house.run("sh", "-c", "echo done; exit 7")
    assert (first.returncode, first.stdout) == (7, "done\n")
    assert "building the environment" in first.stderr
    assert house.run("true").stderr == ""
    assert house.installs() == 1
    in_use = house.write(".venv/in use", "")
    house.write("requirements.lock", "numpy==2.0\n")
    assert "updating the environment" in house.run("true").stderr
    assert in_use.exists()
    assert house.installs() == 2


def test_environment_is_built_again_where_its_interpreter_changed(house: House):
    house.run("true")
    interpreter = house.root / ".venv/bin/python"
    interpreter.unlink()
    interpreter.symlink_to("/bin/sh")
    house.run("true")
    assert house.installs() == 2


def test_interrupted_build_fails_and_is_done_again(house: House):
    broken = house.write("broken", "")
    result = house.run("true")
    assert result.returncode == 1
    assert "can't install requirements.lock" in result.stderr
    broken.unlink()
    assert house.run("true").returncode == 0
    assert house.installs() == 1


def test_two_at_once_build_one_environment(house: House):
    both = [subprocess.Popen([house.root / "run", "true"], env=house.environment()) for _ in range(2)]
    assert [process.wait(timeout=DEADLINE_S) for process in both] == [0, 0]
    assert house.installs() == 1


def test_command_runs_in_the_callers_folder_and_sees_the_packages(house: House, tmp_path: pathlib.Path):
    link = tmp_path / "link"
    link.symlink_to(house.root / "run")
    script = (
        'pwd; readlink -f "$VIRTUAL_ENV/lib/python3.10/site-packages/boonta"; command -v python; '
        'echo "$TF_CPP_MIN_LOG_LEVEL"'
    )
    root = str(house.root)
    for level, more in (("2", {}), ("0", {"TF_CPP_MIN_LOG_LEVEL": "0"})):
        result = house.run("sh", "-c", script, entry=str(link), cwd=str(tmp_path), **more)
        assert result.stdout.splitlines() == [str(tmp_path), root, f"{root}/.venv/bin/python", level]


def test_another_python_has_an_environment_of_its_own(house: House):
    assert "/.venv-3.12/bin/python" in house.run("sh", "-c", "command -v python", BOONTA_PYTHON="3.12").stdout
    assert not (house.root / ".venv").exists()
    assert ".venv*" in (ROOT / ".gitignore").read_text().split()


@pytest.mark.parametrize(("version", "name"), [("", ".venv-cuda12"), ("3.13", ".venv-3.13-cuda12")])
def test_an_accelerator_has_an_environment_of_its_own(house: House, version: str, name: str):
    where = house.run("sh", "-c", "command -v python", BOONTA_JAX="cuda12", BOONTA_PYTHON=version)
    assert where.stdout.strip() == f"{house.root}/{name}/bin/python"
    assert (house.root / "installs").read_text().endswith("requirements.lock requirements-cuda12.lock\n")
    house.write("requirements-cuda12.lock", "cuda12==2.0\n")
    house.write("requirements-tpu.lock", "tpu==2.0\n")
    assert "updating the environment" in house.run("true", BOONTA_JAX="cuda12", BOONTA_PYTHON=version).stderr
    assert house.installs() == 2


def test_the_cpu_is_the_usual_accelerator(house: House):
    for jax in ("", "cpu"):
        assert f"{house.root}/.venv/bin" in house.run("sh", "-c", "command -v python", BOONTA_JAX=jax).stdout
    assert house.installs() == 1
    assert (house.root / "installs").read_text().endswith(" requirements.lock\n")


def test_an_unknown_accelerator_is_refused(house: House):
    result = house.run("true", BOONTA_JAX="cuda")
    assert result.returncode == 1
    assert "BOONTA_JAX is 'cuda': it is cpu, or cuda12 for NVIDIA GPUs, or tpu" in result.stderr
    assert house.installs() == 0


def test_python_that_boonta_does_not_run_on_is_refused(house: House):
    result = house.run("true", BOONTA_PYTHON="3.9")
    assert result.returncode == 1
    assert "BOONTA_PYTHON is '3.9': Boonta runs on 3.10" in result.stderr


def test_missing_python_is_named(house: House):
    (house.root / ".uv/bin/uv").unlink()
    result = house.run("true")
    assert result.returncode == 1
    assert "no Python 3.10 on the PATH or in pyenv, and no uv to fetch one: install python3.10" in result.stderr
    assert house.run("find-python", "3.10").returncode == 1


def test_uv_set_up_by_another_python_fetches_the_right_one(house: House):
    (house.root / ".uv/bin/uv").rename(house.root / "uv")
    (house.tools / "python3").write_text(FAKE_PYTHON)
    (house.tools / "python3").chmod(0o755)
    result = house.run("true")
    assert "no Python 3.10 on the PATH or in pyenv: uv fetches one" in result.stderr
    assert "--python 3.10 " in (house.root / "asked").read_text()


def test_python_that_does_not_run_is_passed_over_for_one_in_pyenv(house: House):
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shim = house.tools / f"python{version}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    pyenv = house.root / f"pyenv/versions/{version}.99/bin"
    pyenv.mkdir(parents=True)
    (pyenv / "python").symlink_to(os.path.realpath(sys.executable))
    result = house.run("find-python", version, PYENV_ROOT=str(house.root / "pyenv"))
    assert result.stdout.strip() == os.path.realpath(sys.executable)


def test_the_doctor_has_a_short_name(house: House):
    house.run("true")
    house.write(".venv/bin/boonta", '#!/bin/sh\necho "$@"\n')
    assert house.run("doctor", "--json").stdout == "doctor --json\n"


def test_lock_is_compiled_and_checked(house: House):
    house.write("wanted.lock", "numpy==1.0\n")
    assert house.run("lock", "--check").returncode == 0
    house.write("wanted.lock", "numpy==2.0\n")
    stale = house.run("lock", "--check")
    assert stale.returncode == 1
    assert "requirements.lock (<) is not what pyproject.toml asks for (>)" in stale.stderr
    assert (house.root / "requirements.lock").read_text() == "numpy==1.0\n"
    assert house.run("lock").returncode == 0
    assert (house.root / "requirements.lock").read_text() == "numpy==2.0\n"
    for jax in JAXES:  # Each has what it adds alone.
        assert (house.root / f"requirements-{jax}.lock").read_text() == f"{jax}==1.0\n    # via jax\n"
        house.write(f"requirements-{jax}.lock", "other==1.0\n")
        stale = house.run("lock", "--check")
        assert stale.returncode == 1 and f"requirements-{jax}.lock (<) is not what" in stale.stderr
        assert house.run("lock").returncode == 0


def test_entries_are_programs():
    for name in ("run", ".ci/run", ".ci/packages"):
        assert os.access(ROOT / name, os.X_OK), f"{name} is not executable"
