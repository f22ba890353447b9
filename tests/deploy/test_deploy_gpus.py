"""GPUs that a program or its flags give to groups, in each way to deploy."""

from __future__ import annotations

import json
import pathlib

import pytest

from boonta.deploy import core, jobset, slurm
from boonta.deploy.program import build, environment_of
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.interpreters.local import ONE_THREAD
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import machines, schemas
from boonta.tests.helpers.apart import Apart
from boonta.tests.helpers.manifests import container

IMPALA, INFERENCE = ROOT / "programs" / "impala.py", ROOT / "programs" / "central_inference.py"
LIGHT, ROLES = "tests/helpers/light_program.py", "tests/helpers/roles_program.py"
FRACTION, SEEN, PREALLOCATE = "XLA_PYTHON_CLIENT_MEM_FRACTION", "CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_PREALLOCATE"


def pod_of(manifest: dict, label: str) -> tuple[str | None, dict[str, str]]:
    """The GPUs of each pod of a group, and its environment variables."""
    found = container(manifest, label)
    return found["resources"]["limits"].get("nvidia.com/gpu"), {
        each["name"]: each.get("value") for each in found["env"]
    }


def test_pods_have_the_gpus_that_the_flags_give_unless_the_table_has_others():
    table = ResourceTable("image", groups={"evaluator": Resources(cpu="3")})
    flags = ["catch", "--gpus", "learner=2", "evaluator=0.25", "inference=0", "--inference", "2"]
    manifest, _ = jobset.render(jobset.prepare(INFERENCE, flags, table))
    assert schemas.problems(manifest) == []
    gpus, variables = pod_of(manifest, "learner")  # Without the TPU that it has by default.
    assert gpus == "2" and variables["JAX_PLATFORMS"] == "cuda,cpu" and FRACTION not in variables
    assert "google.com/tpu" not in container(manifest, "learner")["resources"]["limits"]
    gpus, variables = pod_of(manifest, "evaluator")
    assert gpus == "1" and variables.items() >= {"JAX_PLATFORMS": "cuda,cpu", FRACTION: "0.25", **ONE_THREAD}.items()
    assert container(manifest, "evaluator")["resources"]["limits"]["cpu"] == "3"
    gpus, variables = pod_of(manifest, "inference")
    assert gpus is None and variables["JAX_PLATFORMS"] == "cpu"
    # With these variables, a pod's node need not start again.
    built = build(INFERENCE, flags)
    tasks = core.plan(built.program)
    for label in ("learner", "evaluator", "inference"):
        entered = pod_of(manifest, label)[1][core.ENTERED]
        (task, *_) = (task for task in tasks if task.label == label)
        assert entered == core.entered(environment_of(built, "x-{label}-{index}", task, tasks))


def test_the_table_may_say_the_same():
    table = ResourceTable("image", groups={"learner": Resources(gpus=1, volume="1Gi")})
    manifest, _ = jobset.render(jobset.prepare(IMPALA, ["catch", "--gpus", "learner=0.9"], table))
    assert pod_of(manifest, "learner")[0] == "1" and pod_of(manifest, "learner")[1][FRACTION] == "0.9"


TPU = {"accelerator": "tpu-v6e-slice", "topology": "2x4"}


@pytest.mark.parametrize(
    ("number", "group", "message"),
    [
        (
            "1",
            {"gpus": 2},
            "--gpus learner=1, and groups.learner: gpus is 2 in the resource table: leave one of them out",
        ),
        ("0", {"gpus": 2}, "--gpus learner=0, and groups.learner: gpus is 2 in the resource table"),
        ("1", TPU, "--gpus learner=1, and groups.learner: topology is '2x4' in the resource table"),
    ],
)
def test_a_table_with_other_accelerators_is_refused(number, group, message):
    table = ResourceTable("image", groups={"learner": Resources(volume="1Gi", **group)})
    with pytest.raises(BadInput, match=message):
        jobset.prepare(IMPALA, ["catch", "--gpus", f"learner={number}"], table)


def rendered(*flags: str, program: str = LIGHT, **job) -> str:
    return slurm.render(slurm.Job(ROOT / program, **job), [*flags, "--workdir", "/x"])


def test_slurm_says_which_gpus_would_idle(capsys):
    rendered("--actors", "2", nodes=2, gpus_per_node=2)
    told = "warning: no node uses these GPUs, see deploy/ACCELERATORS.md: "
    assert capsys.readouterr().err == f"{told}2 of machine 2 of 2\n"
    rendered("--actors", "2", "--gpus", "learner=1", "actor=0.5", nodes=2, gpus_per_node=2)
    assert capsys.readouterr().err == f"{told}1 of machine 2 of 2\n"
    script = rendered("--actors", "2", "--gpus", "actor=0.5", nodes=2, gpus_per_node=1)
    assert capsys.readouterr().err == "" and "--gpus actor=0.5" in script  # The tasks take the flags.
    rendered(nodes=2)
    assert capsys.readouterr().err == ""


def test_the_runs_of_an_array_are_told_of_once(tmp_path, capsys):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"program: {ROOT / LIGHT}\nseeds: 3\nflags: {{stop.updates: 60}}\n")
    slurm.render(slurm.Job(sweep, nodes=2, gpus_per_node=1), ["--workdir", str(tmp_path / "runs")])
    assert capsys.readouterr().err.count("1 of machine 2 of 2") == 1


@pytest.mark.parametrize(
    ("flags", "job", "message"),
    [
        (
            ["--gpus", "learner=0"],
            {"gpus_per_node": 1},
            "--gpus-per-node is 1, and all nodes of the program are on the",
        ),
        (
            ["--process-env", "learner:JAX_PLATFORMS=cpu"],
            {"gpus_per_node": 1},
            "all nodes of the program are on the CPU",
        ),
        (
            ["--gpus", "actor=1"],
            {"nodes": 2},
            "actor/0 asks for 1 GPU, for which machine 2 of 2 has no room: .* 0 GPUs",
        ),
        (["--gpus", "actor=2"], {"gpus_per_node": 1}, "actor/0 asks for 2 GPUs, for which machine 1 of 1 has no room"),
        (["--gpus", "actor=1"], {"gpus_per_node": 1}, "machine 1 of 1 has 1 GPU, of which nothing is left for learner"),
    ],
)
def test_slurm_refuses_gpus_that_nothing_uses_or_that_do_not_suffice(flags, job, message):
    with pytest.raises(BadInput, match=message):
        rendered(*flags, **job)


def test_learners_share_a_machine_that_has_gpus_for_all():
    flags, job = ("catch", "--learners", "2"), {"program": "programs/impala.py", "gpus_per_node": 2}
    with pytest.raises(BadInput, match="2 learners with GPUs need a machine each, or --gpus learner=1 after --"):
        rendered(*flags, **job)
    rendered(*flags, "--gpus", "learner=1", **job)


@pytest.mark.cluster
def test_nodes_started_by_their_own_commands_divide_their_machines_gpus(tmp_path, monkeypatch):
    """Those that the command sees; what their role's environment had of them is gone."""
    monkeypatch.setenv(SEEN, "4,6,7")
    machines.add_gpus(tmp_path / "machine", "NVIDIA L4")
    flags = ("--machine", str(tmp_path / "machine"), "--evaluators", "2", "--gpus", "evaluator=1")
    with Apart(ROLES, "--workdir", str(tmp_path / "run"), *flags) as apart:
        started = {(label, i): apart.start(label, i) for label, i in (("monitor", 0), ("variables", 0))}
        started |= {
            (label, i): apart.start(label, i) for label, i in (("evaluator", 0), ("evaluator", 1), ("learner", 0))
        }
        apart.wait_for(tmp_path / "run", "updates", 0)
        apart.wait_for(tmp_path / "run", "env_steps", 0)
        texts = {key: pathlib.Path(f"/proc/{each.pid}/environ").read_text() for key, each in started.items()}
    found = {key: dict(word.split("=", 1) for word in text.split("\0") if "=" in word) for key, text in texts.items()}
    assert (found["evaluator", 0][SEEN], found["evaluator", 1][SEEN]) == ("4", "6")
    assert found["evaluator", 1]["JAX_PLATFORMS"] == "cuda,cpu"
    assert found["learner", 0][SEEN] == "7" and found["variables", 0][SEEN] == "4,6,7"
    assert json.loads(found["evaluator", 0][core.ENTERED])[SEEN] == "4"


@pytest.mark.cluster
def test_a_node_whose_machine_has_too_few_gpus_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(SEEN, "0")
    with Apart(ROLES, "--workdir", str(tmp_path), "--evaluators", "2", "--gpus", "evaluator=1") as apart:
        apart.start("evaluator", 1)
        codes, outputs = apart.finish()
    assert codes == {"evaluator/1": 2}
    assert "evaluator/1 asks for 1 GPU, for which this machine has no room" in outputs["evaluator/1"]


def test_actors_that_join_get_gpus_in_turn(monkeypatch):
    monkeypatch.setenv(SEEN, "4,6,7")
    monkeypatch.setenv(core.ENTERED, "{}")
    built = build(ROOT / LIGHT, ["--gpus", "actor=0.5"])
    tasks = core.plan(built.program)
    found = [environment_of(built, "/x/servers.json", core.find(tasks, "actor", i), tasks) for i in range(2, 6)]
    assert [variables[SEEN] for variables in found] == ["7", "4", "6", "7"]
    assert {variables[FRACTION] for variables in found} == {"0.5"}
