"""Checks of what is installed. Libraries are asked in processes of their own, see `apart`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys

from boonta.programs.tools.checks.apart import Answer, ask
from boonta.programs.tools.checks.finding import Finding
from boonta.programs.wiring.machine import accelerators, network
from boonta.programs.wiring.run_folder import provenance

WHOLE, NEWEST = (3, 10), (3, 13)
BUILD = "remove .venv*, so that ./run builds the environment again"
VARIABLES = [*provenance.VARIABLES, "BOONTA_JAX", "BOONTA_PYTHON", "ALE_ROMS_DIR", "LD_LIBRARY_PATH", "TPU_NAME"]
VARIABLES += ["XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"]
ABSENT = "ModuleNotFoundError"
# The use of each package, by import name.
OPTIONAL = {"optuna": "sweeps that sample", "tensorboard": "curves", "brax": "environments brax/…"}
SMI_S = 20.0


def has_cluster() -> bool:
    """Whether this Python is the one that the cluster packages have wheels for."""
    return sys.version_info[:2] == WHOLE


def python() -> Finding:
    """The interpreter and the system."""
    found = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    if not WHOLE <= sys.version_info[:2] <= NEWEST:
        return Finding("python", "missing", found, "Boonta runs on CPython 3.10 (all of it) and on 3.11 to 3.13")
    if not has_cluster():
        advice = "--launch sebulba and anakin run here; for the others take CPython 3.10, as ./run does"
        return Finding("python", "ok", found, advice)
    return Finding("python", "ok", f"{found}: it can run all of Boonta")


def boonta() -> Finding:
    """Boonta's version and source."""
    commit, dirty = provenance.revision(provenance.ROOT / "__init__.py")
    state = "" if commit is None else f", commit {commit[:12]}{' with changes' if dirty else ''}"
    version = provenance.version_of_boonta()
    return Finding("boonta", "ok", f"{version}{state}, source {provenance.source_digest()}")


def variables() -> Finding:
    """The environment variables that change what is found here."""
    found = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return Finding("variables", "ok", ", ".join(found) or "none that changes how Boonta runs")


def jax() -> list[Finding]:
    """JAX, and whether it has the accelerators that the system shows."""
    answer = ask("jax")
    if answer.error:
        advice = BUILD if answer.error.startswith(ABSENT) else "if JAX_PLATFORMS=cpu helps, it is the accelerator"
        return [Finding("jax", "missing", f"it doesn't work: {answer.error}", advice), accelerator(answer)]
    devices = ", ".join(map(_device, answer.content["devices"]))
    found = f"{answer.content['jax']}, jaxlib {answer.content['jaxlib']}, on {answer.content['backend']}: {devices}"
    return [Finding("jax", "ok", found), accelerator(answer)]


def _device(device: dict) -> str:
    memory = f" with {device['bytes'] / 1e9:.1f} GB" if device["bytes"] else ""
    return f"{device['kind']}{memory}"


def accelerator(answer: Answer) -> Finding:
    """Compares the system's accelerators with JAX's."""
    platforms = {device["platform"] for device in answer.content.get("devices", ())} - {"cpu"}
    gpus, chips = accelerators.gpus() or _smi(), accelerators.tpu_chips()
    if platforms:
        return Finding("accelerator", "ok", f"JAX has it: {', '.join(sorted(platforms))}")
    if gpus:
        kind, shown = "cuda12", f"{len(gpus)} x {gpus[0]}"
    elif chips or os.environ.get("TPU_NAME"):
        kind, shown = "tpu", f"{chips} TPU chips" if chips else "a TPU, by TPU_NAME"
    else:
        return Finding("accelerator", "ok", "none; JAX uses the cores")
    return Finding("accelerator", "warning", f"{shown}, which JAX doesn't use", _remedy(kind, answer.log))


def _remedy(kind: str, log: str) -> str:
    """A remedy for an accelerator that JAX doesn't use."""
    hiding = {"JAX_PLATFORMS": ("cpu",), "CUDA_VISIBLE_DEVICES": ("", "-1") if kind == "cuda12" else ()}
    for name, values in hiding.items():
        if os.environ.get(name) in values:
            return f"{name} is {os.environ[name]!r}: unset it"
    needed = {"cuda12": "jax_cuda12_plugin", "tpu": "libtpu"}[kind]
    if importlib.util.find_spec(needed) is None:
        return f"BOONTA_JAX={kind} ./run …, or pip install 'boonta-rl[{kind}]': {needed} isn't installed"
    reason = log.rpartition("\n")[2]
    look = {"cuda12": "nvidia-smi must show a driver of 525 or newer", "tpu": "no other process may use the TPU"}[kind]
    return f"{look}; the last line of JAX's output: {reason or 'nothing'}"


def _smi() -> list[str]:
    """The GPUs that nvidia-smi lists; some containers have no file that shows them."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SMI_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def private_network() -> Finding:
    """Which network the servers of a program get."""
    answer = ask("network")
    if answer.error:
        advice = "allow user namespaces, or install a C compiler; or let all who reach this machine in: --network open"
        return Finding("network", "missing" if has_cluster() else "warning", answer.error, advice)
    got = answer.content["network"]
    advice = "allow user namespaces, unless you trust them" if got == network.LOOPBACK else ""
    return Finding("network", "ok", f"servers get {got}", advice)


def cluster() -> list[Finding]:
    """Launchpad and Reverb, which programs of several processes need."""
    if not has_cluster():
        found = f"not for CPython {platform.python_version()}: --launch sebulba and anakin do without"
        return [Finding(name, "ok", found) for name in ("launchpad", "reverb")]
    findings = []
    for name, package, works in (
        ("launchpad", "dm-launchpad", "imported"),
        ("reverb", "dm-reverb", "a server took an item on loopback, and gave it back"),
    ):
        answer = ask(name)
        advice = f"pip install 'boonta-rl[cluster]', or {BUILD}; --launch sebulba and anakin do without"
        if answer.error:
            findings.append(Finding(name, "missing", f"{_version(package)}: {answer.error}", advice))
        else:
            findings.append(Finding(name, "ok", f"{_version(package)}: {works}"))
    return findings


def roms() -> Finding:
    """The ROMs of Atari games, which ale-py brings along."""
    answer = ask("roms")
    if answer.error or not answer.content["found"]:
        advice = "unset ALE_ROMS_DIR" if "ALE_ROMS_DIR" in os.environ else "install ale-py again; other games need none"
        return Finding("roms", "warning", answer.error or "none of Atari's games has its ROM", advice)
    return Finding("roms", "ok", f"{answer.content['found']} of {answer.content['known']} Atari games, by ale-py")


def renderers() -> list[Finding]:
    """Whether pictures and videos of environments can be made without a screen."""
    drawn, filmed = ask("drawing"), ask("video")
    findings = []
    if drawn.error:
        advice = "pip install 'gymnasium[classic-control]' imageio; only boonta play and pictures need it"
        findings.append(Finding("pictures", "warning", drawn.error, advice))
    else:
        findings.append(Finding("pictures", "ok", "Gymnasium draws without a screen, and a GIF is made"))
    if filmed.error:
        advice = "pip install imageio-ffmpeg; only .mp4 files need it, boonta play makes a GIF without"
        findings.append(Finding("videos", "warning", filmed.error, advice))
    else:
        findings.append(Finding("videos", "ok", f"FFmpeg {filmed.content['version']} makes an MP4"))
    return findings


def optional() -> Finding:
    """Packages that only some uses of Boonta need."""
    absent = {name: use for name, use in OPTIONAL.items() if importlib.util.find_spec(name) is None}
    found = ", ".join(f"{name} {_version(name)}" for name in OPTIONAL if name not in absent)
    if absent:
        uses = ", ".join(f"{name} ({use})" for name, use in absent.items())
        return Finding("optional", "ok", found or "none", f"not installed: {uses}")
    return Finding("optional", "ok", found)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
