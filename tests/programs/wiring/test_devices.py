"""GPUs that groups are given: who can't use them, and the environment variables of those that can."""

from __future__ import annotations

from typing import Any

import pytest

from boonta.agents.base import Agent
from boonta.programs.wiring import devices
from boonta.programs.wiring.interpreters.local import ON_CPU, SHARING, group_environment
from boonta.programs.wiring.program import Group, Program, group
from boonta.programs.wiring.run import BadInput, Run
from boonta.tests.helpers.roles_program import Actor, Evaluator, Inference, Learner, Reanalyzer

pytestmark = pytest.mark.once
FRACTION, SEEN = "XLA_PYTHON_CLIENT_MEM_FRACTION", "CUDA_VISIBLE_DEVICES"


def program_of(*groups: Group, **run: Any) -> Program:
    nothing: Any = None
    return Program("program", Run(**run), Agent(nothing, nothing, nothing, ()), nothing, groups)


def environments(program: Program, *gpus: str, inherited: str = "") -> dict[str, dict[str, str]]:
    """By node, the environment variables with which its process runs on a machine."""
    names = [name for group in program.all_groups for name in group.names]
    return devices.on_machine(program, group_environment(program), names, gpus, inherited=inherited)


ALL = (group(Learner), group(Actor, 2), group(Evaluator), group(Reanalyzer))


def test_without_numbers_every_group_goes_on_as_usual():
    found = environments(program_of(*ALL), "0", "1")
    assert found["learner"] == {} and found["reanalyzer/0"].items() >= SHARING.items()
    assert found["evaluator"] == found["actor/1"] == ON_CPU
    assert environments(program_of(*ALL)) == found


def test_a_group_with_a_share_takes_no_more_and_the_learner_what_is_left():
    found = environments(program_of(*ALL, gpus=("evaluator=0.2", "actor=0.1")), "4", "7")
    assert found["evaluator"].items() >= {"JAX_PLATFORMS": "cuda,cpu", FRACTION: "0.2", SEEN: "4"}.items()
    assert found["actor/1"].items() >= {"JAX_PLATFORMS": "cuda,cpu", FRACTION: "0.1", SEEN: "4"}.items()
    assert "OMP_NUM_THREADS" in found["actor/0"]  # It is still one of many.
    assert found["learner"] == {SEEN: "4,7", FRACTION: "0.45"}  # GPU 4 has 0.6 left.
    assert found["reanalyzer/0"].items() >= {**SHARING, SEEN: "4,7"}.items()
    assert SEEN not in found["monitor"]


def test_a_node_with_a_share_reserves_it():
    (found,) = (environments(program_of(*ALL, gpus=("reanalyzer=0.5",)), "0")["reanalyzer/0"],)
    assert found[FRACTION] == "0.5" and not SHARING.keys() & found.keys()


def test_the_run_overrides_the_program_and_0_is_the_cpu():
    groups = group(Learner, gpus=2), group(Actor), group(Evaluator, gpus=0.5)
    found = environments(program_of(*groups, gpus=("evaluator=0",)), "0", "1")
    assert found["learner"] == {"JAX_PLATFORMS": "cuda,cpu", SEEN: "0,1"}
    assert found["evaluator"]["JAX_PLATFORMS"] == "cpu" and SEEN not in found["evaluator"]
    assert environments(program_of(*ALL, gpus=("learner=0",)))["learner"] == {"JAX_PLATFORMS": "cpu"}


def test_a_learner_that_the_whole_command_keeps_on_the_cpu_needs_no_gpu():
    program = program_of(*ALL, gpus=("evaluator=1", "reanalyzer=0"))
    assert environments(program, "0", inherited="cpu")["evaluator"][SEEN] == "0"
    with pytest.raises(BadInput, match="nothing is left for learner"):
        environments(program, "0")


def test_several_learners_have_gpus_of_their_own():
    found = environments(program_of(group(Learner), group(Actor), learners=2, gpus=("learner=2",)), *"0123")
    assert [found[f"learner/{i}"][SEEN] for i in (0, 1)] == ["0,1", "2,3"]


@pytest.mark.parametrize(
    ("groups", "run", "message"),
    [
        (ALL, {"gpus": ("actors=1",)}, r"--gpus actors=1 names no group of the program, which has \['actor', 'eval"),
        (ALL, {"gpus": ("replay=1",)}, "--gpus replay=1 names no group"),
        (ALL, {"gpus": ("monitor=1",)}, "--gpus monitor=1, and Monitor computes nothing on a device: leave it out"),
        ((*ALL, group(Inference)), {"gpus": ("actor=.1",)}, "--gpus actor=0.1, and Actor has an inference node act"),
        ((group(Learner), group(Inference), group(Actor, gpus=1)), {}, "^actor: gpus is 1, and Actor has an inference"),
        (
            ALL,
            {"gpus": ("evaluator=1",), "process_env": ("evaluator:JAX_PLATFORMS=cpu",)},
            "--gpus evaluator=1, and --process-env evaluator:JAX_PLATFORMS=cpu leaves it idle: leave one of them out",
        ),
        (
            ALL,
            {"gpus": ("learner=0",), "process_env": ("learner:JAX_PLATFORMS=cuda",)},
            "--gpus learner=0, which is the CPU, and --process-env has learner:JAX_PLATFORMS=cuda: leave one",
        ),
        (
            ALL,
            {"gpus": ("evaluator=1",), "process_env": (f"learner:{SEEN}=1",)},
            f"--gpus evaluator=1 and --process-env learner:{SEEN}=1 both divide the GPUs: .* --gpus learner=NUMBER",
        ),
        (
            ALL,
            {"gpus": ("evaluator=0.5",), "process_env": (f"evaluator:{FRACTION}=.9",)},
            f"--gpus evaluator=0.5 and --process-env evaluator:{FRACTION}=.9 both divide",
        ),
        (ALL, {"learners": 2, "gpus": ("learner=0.5",)}, "--gpus learner=0.5, and two of several learners can't meet"),
    ],
)
def test_gpus_that_a_group_can_not_use_are_refused(groups, run, message):
    with pytest.raises(BadInput, match=message):
        group_environment(program_of(*groups, **run))


def test_a_node_with_a_whole_gpu_may_take_more_of_its_memory():
    run = {"gpus": ("learner=1", "reanalyzer=0"), "process_env": (f"learner:{FRACTION}=.9",)}
    assert environments(program_of(*ALL, **run), "0")["learner"][FRACTION] == ".9"


@pytest.mark.parametrize("number", ["-1", "1.5", "nan", "inf", "-0.1"])
def test_numbers_that_no_node_can_have_are_refused(number):
    message = f"evaluator: gpus is {float(number):g}; it must be 0 for the CPU, a share of one GPU below 1, or a whole"
    with pytest.raises(ValueError, match=message):
        Run(gpus=(f"evaluator={number}",))
    with pytest.raises(ValueError, match=message):
        group(Evaluator, gpus=float(number))


@pytest.mark.parametrize("word", ["evaluator", "evaluator:1", "evaluator=", "evaluator=half", ""])
def test_words_that_are_no_numbers_are_refused(word):
    with pytest.raises(ValueError, match=f"--gpus '{word}' is not GROUP=NUMBER"):
        Run(gpus=(word,))


def test_a_group_that_is_given_gpus_twice_is_refused():
    with pytest.raises(ValueError, match="--gpus 'actor=2' is the second for actor, which has 1: give one"):
        Run(workdir="run", gpus=("actor=1", "learner=1", "actor=2"))


@pytest.mark.parametrize("launch", ["local_mt", "serial", "sebulba", "anakin"])
def test_one_process_divides_no_gpus(launch):
    with pytest.raises(ValueError, match=f"--gpus 'a=1' is for processes of its own; with --launch {launch} all nodes"):
        Run(launch=launch, gpus=("a=1",))


def test_gpus_that_nothing_uses_are_known():
    on_cpu, on_all, on_one = {"JAX_PLATFORMS": "cpu"}, {}, {SEEN: "1"}
    assert devices.idle([on_cpu], ("0", "1")) == ["0", "1"]
    assert devices.idle([on_cpu, on_one], ("0", "1")) == ["0"]
    assert devices.idle([on_all, on_one], ("0", "1")) == []
