"""The page for users names commands and keys that exist."""

from __future__ import annotations

import pathlib
import re
import textwrap

from boonta.deploy import program, resources
from boonta.programs.wiring.interpreters.local import ROLE_ENVIRONMENT
from boonta.programs.wiring.machine import division
from boonta.programs.wiring.run_folder.provenance import ROOT

PAGE = (pathlib.Path(__file__).parents[2] / "deploy" / "README.md").read_text()
ACCELERATORS = (pathlib.Path(__file__).parents[2] / "deploy" / "ACCELERATORS.md").read_text()
COMMANDS = re.findall(r"-m (boonta\.deploy\.\w+)((?:[^\n]|\\\n)*)", PAGE)


def test_all_commands_are_there_and_their_programs_run_as_the_page_says():
    assert {module for module, _ in COMMANDS} == {
        f"boonta.deploy.{name}" for name in ("node", "jobset", "slurm", "tpu_vm")
    }
    for module, words in COMMANDS:
        own, _, flags = words.replace("\\\n", " ").partition(" -- ")
        (file,) = re.findall(r"programs/\w+\.py", own)
        built = program.build(ROOT / file, flags.partition(">")[0].split())
        assert built.run.is_unit == ("--launch" in flags), module


def test_the_units_in_the_comments_can_be_read(tmp_path):
    units = re.findall(r"unit: \{.*?}", PAGE)
    hosts = []
    for unit in units:
        (tmp_path / "table.yaml").write_text(f"image: x\ngroups: {{{unit}}}")
        hosts.append(resources.read(tmp_path / "table.yaml").resources("unit").hosts)
    assert hosts == [8, 4]


def test_the_resource_table_can_be_read(tmp_path):
    (table,) = re.findall(r"`deploy/resources.py` has the others\.\n\n(.*?)\n\n", PAGE, re.DOTALL)
    path = tmp_path / "table.yaml"
    path.write_text(textwrap.dedent(table))
    read = resources.read(path)
    assert read.resources("learner").chips == read.resources("learner").chips_on_a_host == 8
    assert read.resources("actor").node_selector == {"cloud.google.com/gke-spot": "true"}


def test_the_page_on_accelerators_names_groups_and_nodes_as_they_are():
    commands = re.findall(r"    \./run python (programs/\w+\.py) (.+)", ACCELERATORS.replace("\\\n", ""))
    variables = [program.build(ROOT / file, flags.split()).environment for file, flags in commands]
    assert variables[0]["learner"]["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ".9"
    assert variables[0]["reanalyzer"]["JAX_PLATFORMS"] == variables[0]["actor"]["JAX_PLATFORMS"] == "cpu"
    assert variables[1]["learner"]["CUDA_VISIBLE_DEVICES"] == "1"
    shares = [variables[2][label]["XLA_PYTHON_CLIENT_MEM_FRACTION"] for label in ("learner", "reanalyzer", "evaluator")]
    assert shares == ["0.5", "0.25", "0.1"]
    assert "next to `evaluator=0.25` the learner takes 56%" in ACCELERATORS
    beside = division.divide({"learner": None, "evaluator": 0.25}, ("0",), "this machine")["learner"]
    assert round(100 * float(beside[division.FRACTION])) == 56
    assert {label for label, one in ROLE_ENVIRONMENT.items() if "JAX_PLATFORMS" not in one} == {
        "learner", "inference", "reanalyzer"
    }  # fmt: skip
