"""The doctor's report: of this machine, and of machines, environments and libraries that are broken."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from boonta.programs.tools import doctor
from boonta.programs.tools.checks import apart, finding, software
from boonta.programs.tools.checks.apart import Answer
from boonta.programs.tools.checks.finding import Finding, anonymous
from boonta.programs.wiring.machine import accelerators, network
from boonta.tests.helpers import machines
from boonta.tests.helpers.deadline import DEADLINE_S

CPU = {"jax": "1", "jaxlib": "1", "backend": "cpu", "devices": [{"kind": "cpu", "platform": "cpu", "bytes": None}]}
GPU = {**CPU, "backend": "gpu", "devices": [{"kind": "NVIDIA L4", "platform": "gpu", "bytes": 18e9}]}
WHOLE = sys.version_info[:2] == (3, 10)


def examined(**variables: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """The exit code, the findings by name, and what was printed besides."""
    command = [sys.executable, "-m", "boonta", "doctor", "--json"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=DEADLINE_S)
    return done.returncode, {each["name"]: each for each in json.loads(done.stdout)}, done.stderr


def test_this_machine_can_run_programs():
    code, found, error = examined()
    needed = {"python", "jax", "loopback", *(("launchpad", "reverb") if WHOLE else ())}
    assert all(found[name]["state"] == "ok" for name in needed), found
    assert {"boonta", "accelerator", "cores", "memory", "disk", "network", "roms", "pictures", "videos"} <= found.keys()
    assert code == any(each["state"] == "missing" for each in found.values()) and "Traceback" not in error
    assert anonymous(json.dumps(found)) == json.dumps(found)


def test_broken_libraries_are_lines(tmp_path):
    for name in ("jax", "psutil", "tyro", "numpy", "reverb", "ale_py", "imageio"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is broken')")
    code, found, error = examined(PYTHONPATH=str(tmp_path))
    assert code == 1 and not error
    assert found["jax"]["state"] == "missing" and "ImportError: jax is broken" in found["jax"]["found"]
    assert found["roms"]["state"] == found["pictures"]["state"] == found["videos"]["state"] == "warning"
    assert found["launchpad"]["state"] == found["reverb"]["state"] == ("missing" if WHOLE else "ok")


def test_what_fails_to_be_looked_at_is_a_line(monkeypatch):
    def odd_check():
        raise RuntimeError(f"it is on {socket.gethostname()}")

    monkeypatch.setattr(doctor, "CHECKS", [odd_check])
    (result,) = doctor.examine()
    assert result == ("odd check", "warning", "could not be checked: RuntimeError: it is on HOST", "please report this")


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warning", 0), ("missing", 1)])
def test_the_exit_code_is_that_of_what_is_missing(monkeypatch, capsys, state, code):
    monkeypatch.setattr(doctor, "CHECKS", [lambda: Finding("disk", state, "full", "make room")])
    monkeypatch.setattr(sys, "argv", ["boonta doctor"])
    with pytest.raises(SystemExit) as ended:
        doctor.main()
    assert ended.value.code == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["disk", state, "full"] and lines[1].split(maxsplit=1) == ["->", "make room"]
    assert lines[-1] == ("A run on this machine lacks: disk." if code else "Programs can run on this machine.")


def test_names_of_users_and_hosts_are_left_out(monkeypatch):
    monkeypatch.setenv("HOME", "/data/ann")
    monkeypatch.setenv("USER", "ann")
    monkeypatch.setattr(finding.socket, "gethostname", lambda: "box7")
    result = anonymous("ann on box7: /data/ann/x, /home/bob/y, annual, box77")
    assert result == "USER on HOST: ~/x, ~/y, annual, box77"


QUESTIONS = {
    "print('noise'); print(ANSWER + '{\"a\": 1}')": Answer({"a": 1}),
    'print(ANSWER + \'{"error": "it broke"}\')': Answer({}, "it broke"),
    "import os; os.kill(os.getpid(), 11)": Answer({}, "killed by SIGSEGV"),
    "import sys; sys.exit('the end')": Answer({}, "the end", "the end"),
    "import time; time.sleep(600)": Answer({}, "no answer within 5 s"),
}


@pytest.mark.once
@pytest.mark.parametrize("code", QUESTIONS)
def test_a_process_that_crashes_or_hangs_is_reported(monkeypatch, tmp_path, code):
    script = tmp_path / "python"
    script.write_text(f'#!{sys.executable}\nANSWER = "{apart.ANSWER}"\n{code}\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    assert apart.ask("jax", 5.0 if "sleep" in code else apart.DEADLINE_S) == QUESTIONS[code]


@pytest.fixture
def machine(tmp_path, monkeypatch) -> pathlib.Path:
    """A machine without accelerators, nvidia-smi, or variables that hide any."""
    monkeypatch.setattr(accelerators, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "TPU_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_no_accelerator_is_fine(machine):
    assert software.accelerator(Answer(CPU)) == ("accelerator", "ok", "none; JAX uses the cores", "")


def test_one_that_jax_has_is_fine(machine):
    machines.add_gpus(machine, "NVIDIA L4")
    assert software.accelerator(Answer(GPU)).state == "ok"


def test_one_that_jax_has_no_plugin_for(machine, monkeypatch):
    monkeypatch.setattr(software.importlib.util, "find_spec", lambda name: None)
    machines.add_gpus(machine, "NVIDIA L4", "NVIDIA L4")
    result = software.accelerator(Answer(CPU))
    assert result[:3] == ("accelerator", "warning", "2 x NVIDIA L4, which JAX doesn't use")
    assert result.advice.startswith("BOONTA_JAX=cuda12 ./run")


def test_one_that_only_nvidia_smi_shows(machine):
    (machine / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H200\n")
    (machine / "nvidia-smi").chmod(0o755)
    assert software.accelerator(Answer(CPU)).found == "1 x NVIDIA H200, which JAX doesn't use"
    (machine / "nvidia-smi").write_text("#!/bin/sh\necho no driver\nexit 9\n")
    assert software.accelerator(Answer(CPU)).state == "ok"


def test_one_that_fails_gets_jaxs_own_reason(machine, monkeypatch):
    monkeypatch.setattr(software.importlib.util, "find_spec", lambda name: name)
    machines.add_tpus(machine, 4)
    result = software.accelerator(Answer(CPU, log="one\nthe TPU is in use"))
    assert result.found == "4 TPU chips, which JAX doesn't use"
    assert result.advice == "no other process may use the TPU; the last line of JAX's output: the TPU is in use"


@pytest.mark.parametrize(("name", "value"), [("JAX_PLATFORMS", "cpu"), ("CUDA_VISIBLE_DEVICES", "")])
def test_one_that_is_hidden(machine, monkeypatch, name, value):
    machines.add_gpus(machine, "NVIDIA L4")
    monkeypatch.setenv(name, value)
    assert software.accelerator(Answer(CPU)).advice == f"{name} is {value!r}: unset it"


def answers(monkeypatch, *given: Answer) -> None:
    """Has the next questions answered so."""
    left = iter(given)
    monkeypatch.setattr(software, "ask", lambda question: next(left))


def test_devices_are_reported_with_their_memory(machine, monkeypatch):
    answers(monkeypatch, Answer(GPU))
    assert software.jax()[0].found == "1, jaxlib 1, on gpu: NVIDIA L4 with 18.0 GB"


@pytest.mark.parametrize("whole", [True, False])
def test_what_processes_need_is_missing_where_they_could_run(monkeypatch, whole):
    monkeypatch.setattr(software, "has_cluster", lambda: whole)
    answers(monkeypatch, *[Answer({}, "ModuleNotFoundError: No module named 'launchpad'")] * 3)
    states = [software.private_network(), *software.cluster()]
    assert [each.state for each in states] == (["missing"] * 3 if whole else ["warning", "ok", "ok"])


def test_a_network_that_others_reach_is_reported(monkeypatch):
    answers(monkeypatch, Answer({"network": network.LOOPBACK}), Answer({"network": network.PRIVATE}))
    assert software.private_network().advice and not software.private_network().advice


def test_an_old_python_is_missing(monkeypatch):
    monkeypatch.setattr(software.sys, "version_info", (3, 9, 1))
    assert software.python().state == "missing"


def test_roms_and_renderers_are_no_need(monkeypatch):
    monkeypatch.setenv("ALE_ROMS_DIR", "/nowhere")
    answers(monkeypatch, Answer({"found": 0, "known": 108}), *[Answer({}, "ImportError: no FFmpeg")] * 2)
    result = software.roms()
    assert result.state == "warning" and result.advice == "unset ALE_ROMS_DIR"
    assert [each.state for each in software.renderers()] == ["warning"] * 2


def test_optional_packages_are_named(monkeypatch):
    monkeypatch.setattr(software, "OPTIONAL", {"pytest": "tests", "absent_package": "nothing"})
    result = software.optional()
    assert (
        result.state == "ok" and "pytest" in result.found and result.advice == "not installed: absent_package (nothing)"
    )
