"""The image can't be built everywhere, so its steps are tested as far as possible without building it."""

from __future__ import annotations

import pathlib
import re
import subprocess

from boonta.deploy import roles

ROOT = pathlib.Path(__file__).parents[2]
STEPS = [
    line.split(maxsplit=1)
    for line in (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    if line and not line.startswith("#")
]


LOCKS = ("requirements.lock", "requirements-cuda12.lock", "requirements-tpu.lock")


def steps(kind: str) -> list[str]:
    return [text for word, text in STEPS if word == kind]


def test_every_command_is_sound_shell():
    for command in steps("RUN"):
        subprocess.run(["sh", "-n", "-c", command], check=True)
    assert len(STEPS) <= 20


def test_all_that_is_copied_exists_and_all_packages_are_copied():
    copied = [text.split() for text in steps("COPY")]
    sources = {source for *from_here, _ in copied for source in from_here}
    assert all((ROOT / source).exists() for source in sources)
    folders = set(re.findall(r'^  "boonta\.(\w+)",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    assert folders == set(roles.IN_IMAGE)
    assert sources == {*LOCKS, "__init__.py", "__main__.py", "py.typed", *folders}
    assert all(place == (f"./{first}" if first in folders else "./") for first, *_, place in copied)


def test_the_folder_is_the_package_that_programs_import():
    (folder,), (variables,) = steps("WORKDIR"), steps("ENV")[-1:]
    assert folder == "/app/boonta" and "PYTHONPATH=/app" in variables.split()


def test_the_lock_comes_before_the_source_so_that_a_changed_file_rebuilds_no_more_than_it():
    words = [(word, text) for word, text in STEPS if word in ("COPY", "RUN")]
    lock = words.index(("COPY", f"{' '.join(LOCKS)} ./"))
    installs = [i for i, (word, text) in enumerate(words) if word == "RUN" and "pip" in text]
    source = [i for i, (word, text) in enumerate(words) if word == "COPY" and i != lock]
    assert lock < min(installs) and max(installs) < min(source)


def test_it_does_not_run_as_root():
    assert steps("USER") == ["1000:1000"]
    assert STEPS[-2][0] in ("USER", "ENV") and STEPS.index(["USER", "1000:1000"]) > len(STEPS) - 3


def test_pods_run_as_the_images_user():
    from boonta.deploy import jobset

    assert steps("USER") == [f"{jobset.USER}:{jobset.USER}"]


def test_python_is_the_one_that_the_lock_is_for():
    version = (ROOT / ".python-version").read_text().strip()
    assert steps("FROM") == ["python:${PYTHON}-slim-bookworm"]
    assert STEPS[0] == ["ARG", f"PYTHON={version}"]


def test_an_accelerators_packages_are_the_locked_ones():
    install = steps("RUN")[-1]
    for variant, asked in (("tpu", "requirements-tpu.lock"), ("cuda12", "requirements-cuda12.lock"), ("", "")):
        script = f'pip() {{ echo "$*"; }}; JAX={variant}; {install}'
        output = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        assert output == (f"install --require-hashes --no-deps -r {asked}" if asked else "")
        assert not asked or asked in LOCKS
