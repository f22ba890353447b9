"""Which programs become pods, and which are refused."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from boonta.deploy import jobset, roles, slurm, tpu_vm
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import pods
from boonta.tests.helpers.manifests import job

IMPALA = ROOT / "programs" / "impala.py"
LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"
TABLE = ResourceTable("registry.example.com/boonta:1")


@pytest.mark.parametrize(
    ("flags", "table", "message"),
    [
        (["--workdir", "x"], TABLE, "--workdir is the pods' own"),
        (["--workdir=x"], TABLE, "--workdir is the pods' own"),
        ([], ResourceTable("i", groups={"actors": Resources()}), r"groups \['actors'\] of the resource table"),
        ([], ResourceTable("i", name="n" * 50), "over 63 letters"),
        ([], ResourceTable("i", groups={"replay": Resources()}), "groups.replay: volume is empty"),
    ],
)
def test_programs_that_do_not_fit_are_refused(flags, table, message):
    with pytest.raises(BadInput, match=message):
        jobset.prepare(IMPALA, ["catch", *flags], table)


def rename(monkeypatch, group: str, label: str) -> None:
    """Gives another label to a group of each program that is built."""
    built = roles.build(LIGHT, [])
    groups = [dataclasses.replace(each, label=label) if each.label == group else each for each in built.program.groups]
    named = built._replace(
        program=dataclasses.replace(built.program, groups=tuple(groups)),
        environment={**built.environment, label: built.environment[group]},
    )
    for module in (roles, slurm, tpu_vm):
        monkeypatch.setattr(module, "build", lambda file, flags: named)


def test_the_learner_is_known_by_its_role(monkeypatch):
    rename(monkeypatch, "learner", "trainer")
    found = tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a,b,c", learner_host="b"), []).commands
    assert [name for name, command in found.items() if command[-2] == "b"] == ["trainer"]
    with pytest.raises(
        BadInput, match="group 'trainer' has the role 'learner': 'learner' is the label of learners, al"
    ):
        jobset.prepare(LIGHT, [], TABLE)


@pytest.mark.parametrize("label", ["fast_actor", "Fast", "2nd", "fast-"])
def test_a_group_whose_label_can_name_no_pods_is_refused(monkeypatch, label):
    rename(monkeypatch, "actor", label)
    with pytest.raises(BadInput, match=f"group '{label}' can't name pods: give it a label of lower-case letters"):
        jobset.prepare(LIGHT, [], ResourceTable("image"))


@pytest.mark.parametrize("text", ["5$$ a day", "$(BOONTA_INDEX)", "$$(BOONTA_INDEX)", "$HOME/$", "a$"])
def test_flags_and_variables_reach_a_pod_as_they_are_given(text):
    """Kubernetes would expand some of it."""
    flags = ["--process-env", f"actor:TEXT={text}"]
    manifest, _ = jobset.render(jobset.prepare(LIGHT, flags, TABLE))
    command, variables = pods.Pod(manifest, job(manifest, "actor"), 0).command()
    assert command[command.index("--") + 1 :][:2] == flags and variables["TEXT"] == text
    assert command[command.index("--index") + 1] == variables[roles.INDEX] == "0"


def test_a_program_file_outside_the_image_is_refused(tmp_path):
    other = tmp_path / "light_program.py"
    other.write_text(LIGHT.read_text())
    with pytest.raises(BadInput, match="whose files the image has"):
        jobset.prepare(other, [], TABLE)
