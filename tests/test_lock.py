"""The locks: what they pin for each Python and accelerator."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest
from packaging.requirements import Requirement

from boonta.nodes.sinks.base import TRACKERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.once
ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
JAXES = ("cuda12", "tpu")
CLUSTER = {"dm-acme", "dm-launchpad", "dm-reverb", "gym", "tensorflow-cpu"}


def lock_entries(jax: str = "") -> list[str]:
    """The entries of the lock, or of what an accelerator adds to it."""
    return re.findall(r"(?m)^\S.*\n(?: .*\n)*", (ROOT / f"requirements{jax and '-'}{jax}.lock").read_text())


def pins(python: str, jax: str = "") -> dict[str, str]:
    """What a lock installs on Linux for one Python: a version by canonical name."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    environment |= {"platform_machine": "x86_64", "platform_python_implementation": "CPython", "os_name": "posix"}
    found = {}
    for entry in lock_entries(jax):
        requirement = Requirement(entry.partition("\\")[0])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.name not in found, f"two versions of {requirement.name} for Python {python}"
            found[requirement.name.lower()] = str(requirement.specifier).removeprefix("==")
    return found


@pytest.mark.parametrize("jax", ["", *JAXES])
def test_lock_pins_everything_with_hashes_and_names_no_index(jax: str):
    for entry in lock_entries(jax):
        assert re.match(r"[\w.-]+==[\w.]+ ", entry), f"not pinned: {entry}"
        assert "--hash=sha256:" in entry, f"no hash: {entry}"
    text = re.sub(r"#.*", "", "".join(lock_entries(jax)))  # Comments say who asked for a package.
    assert not re.search(r"://|(?m:^ *-[^-]|--(?!hash=sha256:))| @ |file:", text)


@pytest.mark.parametrize("python", PYTHONS)
def test_an_accelerators_packages_are_those_of_the_locked_jax(python: str):
    locked = pins(python)
    for jax in JAXES:
        added = pins(python, jax)
        assert all(locked.get(name, version) == version for name, version in added.items())
        assert not {"jax", "jaxlib", "tensorflow", "tensorflow-cpu"} & added.keys()
    assert pins(python, "cuda12")["jax-cuda12-plugin"] == pins(python, "cuda12")["jax-cuda12-pjrt"] == locked["jax"]
    assert "libtpu" in pins(python, "tpu")


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_has_what_pyproject_asks_for(python: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = pins(python)
    extras = project["optional-dependencies"].keys() - TRACKERS.keys() - {"envpool", "rlds"}
    named = set(re.findall(r"--extra (\w+)", (ROOT / "run").read_text()))
    assert named | set(JAXES) == extras
    for text in sum((project["optional-dependencies"][extra] for extra in extras), project["dependencies"]):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
            assert requirement.specifier.contains(locked[requirement.name.lower()]), f"{text} on Python {python}"


@pytest.mark.parametrize("python", PYTHONS)
def test_cluster_packages_are_locked_for_one_python_alone(python: str):
    assert (CLUSTER & pins(python).keys()) == (CLUSTER if python == "3.10" else set())
