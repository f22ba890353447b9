"""A sweep's plan: what can't work is named before anything starts, and runs that can be one population become one."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from boonta.programs.experiments import check, plan, spec
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Spec
from boonta.programs.wiring.command_line import arguments
from boonta.programs.wiring.command_line.arguments import function_of, origin_of, parse
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.folder import claim_workdir

ROOT = pathlib.Path(__file__).resolve().parents[3]
IMPALA = str(ROOT / "programs" / "impala.py")
ANAKIN = {"launch": "anakin", "stop.updates": 20}

pytestmark = pytest.mark.once


def made(**content) -> Spec:
    return spec.made({"program": IMPALA, "env": "catch", "flags": ANAKIN, **content}, "sweep.yaml")


def planned(given: Spec, folder: pathlib.Path, apart: bool = False, elsewhere: bool = False) -> list[Job]:
    """The jobs, checked in this process, or apart in one of their own, as the command does."""
    with pytest.MonkeyPatch.context() as patched:
        if not apart:
            patched.setattr(check, "_answer_apart", check._answer_here)
        return plan.plan(given, spec.entries(given), folder, plan.read(folder), elsewhere)


def begin(folder: pathlib.Path, job: Job) -> None:
    """Leaves what a job's process writes first."""
    function, command = function_of(pathlib.Path(job.file)), job.command(folder / job.name)[1:]
    run, settings = parse(function, command)
    program = function(run=run, **settings)
    claim_workdir("impala", run, settings, origin_of(function, command, program)).close()


def test_what_can_not_work_is_named_with_near_matches_before_anything_starts(tmp_path):
    variants = [
        {"name": "flag", "config.discont": 0.9},
        {"name": "value", "config.discount": 7},
        {"name": "word", "actors": "two"},
        {"name": "launch", "launch": "anakon"},
        {"name": "endless", "stop.updates": None},
    ]
    given = made(seeds=2, runs=variants)
    with pytest.raises(BadInput) as error:
        planned(given, tmp_path)
    first, *lines = str(error.value).splitlines()
    assert first == "runs of the sweep can't work:" and len(lines) == 5
    errors = {line.split("-")[2]: line for line in lines}
    named = "impala-catch-flag-seed0 and 1 more: Unrecognized options: --config.discont"  # Without tyro's title.
    assert errors["flag"].startswith(named) and "--config.discount" in errors["flag"]
    assert not any(rule in errors["flag"] for rule in ("───", "----"))  # Tyro's frame, which is of either.
    assert "discount is 7" in errors["value"]
    assert "two" in errors["word"] and "anakon" in errors["launch"]
    assert "it has no stop rule" in errors["endless"]
    assert not list(tmp_path.iterdir())


BOXED = """
╭─ Unrecognized options ─────────────────────╮
│ Unrecognized options: --config.discont     │
│ ────────────────────────────────────────── │
│ For full helptext, run impala.py --help    │
╰────────────────────────────────────────────╯
"""


@pytest.mark.parametrize("message", [BOXED, "Unrecognized options: --config.discont"])
def test_a_message_of_the_parser_is_quoted_without_its_frame_and_title(monkeypatch, message):
    def refuse(*_):
        print(message)
        raise SystemExit(2)

    monkeypatch.setattr(arguments, "parse", refuse)
    with pytest.raises(BadInput, match="^Unrecognized options: --config.discont$"):
        check._parsed(None, [])


def test_what_threads_of_one_process_can_not_be_is_refused_before_anything_starts(tmp_path):
    variants = [{"name": "many", "actors": 2}, {"name": "none", "num-envs": 0}]
    with pytest.raises(BadInput) as error:
        planned(made(flags={**ANAKIN, "launch": "sebulba"}, runs=variants), tmp_path)
    _, many, none = str(error.value).splitlines()
    assert "the number of actor nodes is 2; with --launch sebulba it is 1" in many and "num_envs is 0" in none


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks" / "learning").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_sweeps_of_the_benchmarks_can_run(file, tmp_path):
    given = dataclasses.replace(spec.read(file), seeds=1, populations=False)
    assert len(planned(given, tmp_path, elsewhere=True)) == len(spec.entries(given))


def test_an_unknown_environment_is_named_with_near_matches(tmp_path):
    with pytest.raises(BadInput, match="environment 'cach' is unknown: did you mean 'catch'"):
        planned(made(env="cach"), tmp_path)


def test_a_program_that_can_not_be_imported_is_named(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(BadInput, match="broken.py: its runs can't be checked: .*nothing_of_this_name"):
        planned(made(program=str(tmp_path / "broken.py")), tmp_path, apart=True)


def test_runs_that_differ_in_what_can_be_traced_are_one_population_others_several(tmp_path):
    rates, sizes = {"config.optimiser.learning-rate": [0.001, 0.01]}, {"config.lstm-size": [0, 16]}
    jobs = planned(made(seeds=[3, 5], grid=rates | sizes), tmp_path, apart=True)
    assert [len(job.runs) for job in jobs] == [4, 4] and len({job.name for job in jobs}) == 2
    for job, size in zip(jobs, (0, 16)):
        assert [(m["seed"], m["optimiser.learning_rate"]) for m in job.members] == [
            (seed, rate) for seed in (3, 5) for rate in (0.001, 0.01)
        ]
        assert {entry.flags["config.lstm-size"] for entry in job.runs} == {size}
    plan.write(tmp_path, ["boonta"], made(), jobs)
    written = plan.read(tmp_path)
    assert written is not None
    assert [(record.name, record.member) for record in written.runs[:2]] == [
        ("impala-catch-learning-rate0.001-lstm-size0-seed3", 0), ("impala-catch-learning-rate0.01-lstm-size0-seed3", 1)
    ]  # fmt: skip
    assert {record.folder for record in written.runs} == {job.name for job in jobs}


def test_without_populations_each_run_is_a_process(tmp_path):
    jobs = planned(made(seeds=2, populations=False), tmp_path)
    assert [job.name for job in jobs] == ["impala-catch-seed0", "impala-catch-seed1"]
    assert not any(job.members for job in jobs)


def test_what_has_begun_stays_together_when_the_sweep_grows(tmp_path):
    before = planned(made(seeds=4, members=3), tmp_path)
    assert [len(job.runs) for job in before] == [3, 1]
    for job in before:
        begin(tmp_path, job)
    plan.write(tmp_path, [], made(), before)
    after = planned(made(seeds=7, members=3, flags={**ANAKIN, "stop.updates": 30}), tmp_path)
    assert [(job.name, job.members) for job in after[:2]] == [(job.name, job.members) for job in before]
    assert [[entry.seed for entry in job.runs] for job in after[2:]] == [[4, 5, 6]]


def test_what_has_begun_stays_together_without_populations_and_after_starts_that_lack_it(tmp_path):
    before = planned(made(seeds=2), tmp_path)
    begin(tmp_path, before[0])
    plan.write(tmp_path, [], made(), before)
    (same,) = planned(made(seeds=2, populations=False), tmp_path)
    assert (same.name, same.members) == (before[0].name, before[0].members)
    other = made(seeds=2, env="grid_world")
    plan.write(tmp_path, [], other, planned(other, tmp_path), plan.read(tmp_path))
    after = planned(made(seeds=3), tmp_path)
    assert [len(job.runs) for job in after] == [2, 1] and after[0].name == before[0].name


def test_a_part_of_what_has_begun_together_is_refused(tmp_path):
    before = planned(made(seeds=3), tmp_path)
    begin(tmp_path, before[0])
    plan.write(tmp_path, [], made(), before)
    with pytest.raises(
        BadInput, match="^3 runs have begun as one population, .* lacks impala-catch-seed1, impala-catch-seed2:"
    ):
        planned(made(seeds=1), tmp_path)


def test_a_folder_with_other_settings_is_refused(tmp_path):
    jobs = planned(made(seeds=2), tmp_path)
    begin(tmp_path, jobs[0])
    plan.write(tmp_path, [], made(), jobs)
    with pytest.raises(BadInput, match="holds a population with other settings: arguments was"):
        planned(made(seeds=2, flags={**ANAKIN, "config.discount": 0.5}), tmp_path)


@pytest.mark.parametrize("name", ["config.json", "checkpoints/3/MANIFEST.json"])
def test_the_folder_of_a_run_is_no_sweeps(tmp_path, name):
    """The run would disappear from comparisons, which take the folder for the sweep's alone."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    with pytest.raises(BadInput, match=f"--workdir {tmp_path} is the folder of a run: choose another one"):
        planned(made(), tmp_path)


def test_a_damaged_plan_is_made_again_once_it_is_deleted_and_what_has_begun_goes_on(tmp_path):
    before = planned(made(seeds=2), tmp_path)
    begin(tmp_path, before[0])
    plan.write(tmp_path, [], made(), before)
    (tmp_path / plan.FILE).write_text((tmp_path / plan.FILE).read_text()[:-9])
    with pytest.raises(BadInput, match="is damaged: Invalid JSON.* Delete it, and start the sweep by its command "):
        planned(made(seeds=2), tmp_path)
    (tmp_path / plan.FILE).unlink()
    assert planned(made(seeds=2), tmp_path) == before


def test_a_plan_that_can_not_be_read_is_not_to_be_deleted(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(plan.schema, "read", refuse)
    with pytest.raises(BadInput, match="can't be read, or is damaged: .*Permission denied") as refused:
        plan.read(tmp_path)
    assert "Delete it" not in str(refused.value)


def test_a_damaged_plan_is_named(tmp_path):
    (tmp_path / plan.FILE).write_text('{"runs": [')
    with pytest.raises(BadInput, match="sweep.json can't be read, or is damaged"):
        plan.read(tmp_path)
