"""Runs the Slurm script with stand-ins for Slurm's commands: where nodes run, and what follows each kind of end."""

from __future__ import annotations

import pathlib
import re
import signal
import time

import pytest

from boonta.deploy import core, slurm, slurm_script
from boonta.programs.experiments import check, plan
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.slurm_commands import LIGHT, RUN, Cluster

pytestmark = pytest.mark.once

UNIT = pathlib.Path(__file__).parents[1] / "helpers" / "unit_program.py"


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_tasks_are_dealt_to_the_machines_and_each_knows_where_all_are(cluster):
    flags = ("--actors", "2", "--process-env", "learner:WORDS=two $words")
    assert cluster.start(flags=flags).wait(30) == 0
    step, *tasks = cluster.lines()
    assert "--ntasks=5" in step and "--distribution=arbitrary" in step and "--kill-on-bad-exit=0" in step
    assert [re.match(r"on (n\d): .*\[--label]\[(\w+)]\[--index]\[(\d)]", task).groups() for task in tasks] == [
        ("n1", "monitor", "0"),
        ("n2", "variables", "0"),
        ("n1", "learner", "0"),
        ("n2", "actor", "0"),
        ("n1", "actor", "1"),
    ]
    for task in tasks:
        assert "[--hosts][n1,n2][--base-port][21100][--tunnel][--][--actors][2]" in task
        assert task.endswith(f"[--process-env][learner:WORDS=two $words][--workdir][{cluster.folder}/a run]")


@pytest.mark.parametrize(
    ("label", "code", "program", "lives"),
    [
        ("actor", 137, "runs", 3),
        ("actor", 137, "begins", 3),
        ("actor", 137, "ends", 2),
        ("actor", 137, "never", 2),
        ("actor", 2, "runs", 2),
        ("learner", 137, "runs", 1),
    ],
)
def test_an_actor_that_dies_alone_starts_again_until_the_program_ends(
    cluster, monkeypatch, label, code, program, lives
):
    monkeypatch.setattr(slurm_script, "AGAIN_S", 0)
    if program == "never":
        monkeypatch.setattr(slurm.core, "REACH_S", 1.0)
    (cluster.folder / f"dies-{label}").write_text(f"{code} {program}\n")
    (cluster.folder / "a run").mkdir()
    if program in ("runs", "ends"):
        (cluster.folder / "a run" / "servers.json").touch()
    assert cluster.start().wait(30) == 0
    calls = cluster.calls.read_text()
    assert calls.count(f"[--label][{label}]") == lives
    assert calls.count("[--reach-s][0][--][--actors][2]") == lives - 2 if lives > 1 else "[--reach-s]" not in calls
    assert (f"{label} 0 died with code {code}, and starts again" in calls) == (lives == 3)


def test_an_actor_that_has_done_its_work_stays_until_the_program_is_over(cluster):
    """Its end would begin the time that srun gives to the others, of which some save."""
    (cluster.folder / "a run").mkdir()
    (cluster.folder / "a run" / "servers.json").touch()
    assert cluster.start().wait(30) == 0
    step, *lines = cluster.lines()
    over = lines.index("the program is over")
    labels = [re.findall(r"\[--label]\[(\w+)]", "".join(part)) for part in (lines[:over], lines[over:])]
    assert labels == [["monitor", "variables", "learner"], ["actor", "actor"]]
    assert f" --wait={core.END_S:.0f} " in step


def test_a_program_of_threads_runs_once_on_each_machine(cluster):
    assert cluster.start(flags=("--seed", "2"), program=UNIT).wait(30) == 0
    step, *tasks = cluster.lines()
    assert "--ntasks=2" in step
    for index, task in enumerate(tasks):
        places = f"[--hosts.coordinator][n1:21100][--hosts.number][2][--hosts.index][{index}]"
        assert task.startswith(f"on n{index + 1}: [python][") and task.endswith(f"/a run]{places}")
        assert "unit_program.py][--seed][2][--workdir]" in task
    script = (cluster.folder / "job.sbatch").read_text()
    assert (
        "#SBATCH --ntasks-per-node=1" in script and "#SBATCH --cpus-per-task=3" in script
    )  # The task has all places of its machine.


@pytest.mark.parametrize("program", [LIGHT, UNIT])
def test_a_container_may_run_each_task(cluster, program):
    run = "apptainer exec --nv --env A=b,C=d --pwd /app/boonta /shared/boonta.sif"
    (cluster.folder / "apptainer").write_text(RUN)
    (cluster.folder / "apptainer").chmod(0o755)
    (cluster.folder / "run").unlink()
    assert cluster.start(program=program, flags=(), run=run).wait(30) == 0
    tasks = [line for line in cluster.lines() if line.startswith("on ")]
    words = "".join(f"[{word}]" for word in [*run.split()[1:], "python"])
    assert len(tasks) > 1 and all(re.match(rf"on n\d: {re.escape(words)}\[", task) for task in tasks)


@pytest.mark.parametrize("run", ["", "  ", "apptainer exec --bind $HOME x.sif", "exec 'a b'", "sh -c x;y", "a\nb"])
def test_what_a_shell_would_change_is_refused_before_python(run):
    with pytest.raises(BadInput, match="--run is .*; it must be words of letters, digits and "):
        slurm.Job(LIGHT, run=run)


def test_modules_of_ones_own_are_found_where_the_script_was_made(cluster, tmp_path_factory, monkeypatch):
    mine = tmp_path_factory.mktemp("my modules")
    monkeypatch.chdir(mine)
    monkeypatch.setenv("PYTHONPATH", "/also")
    assert cluster.start().wait(30) == 0
    assert (cluster.folder / "path").read_text() == f"{mine}:/also"


def test_what_cannot_run_in_the_repositorys_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workdir = ["--workdir", "/shared/x"]
    for flag in ("--start-from", "--start_from"):
        with pytest.raises(BadInput, match=f"--start-from is 'runs/old'; .* from here {tmp_path}/runs/old"):
            slurm.render(slurm.Job(LIGHT), [flag, "runs/old", *workdir])
    monkeypatch.setattr(slurm, "ROOT", tmp_path)  # As of an installed package.
    with pytest.raises(BadInput, match="has no ./run: give --run 'env PATH=/project/.venv/bin:/usr/bin:/bin', where"):
        slurm.render(slurm.Job(LIGHT, root=tmp_path), workdir)
    assert "env PATH=/p/bin python" in slurm.render(slurm.Job(LIGHT, root=tmp_path, run="env PATH=/p/bin"), workdir)


def test_work_done_ends_the_job(cluster):
    assert cluster.start(code=0).wait(30) == 0
    assert not any("requeue" in line for line in cluster.lines())


def test_failures_are_tried_again_a_few_times(cluster):
    assert cluster.start(code=1).wait(30) == 0
    assert cluster.lines()[-1] == "scontrol requeue 4711"
    cluster.calls.unlink()
    assert cluster.start(code=1).wait(30) == 1  # The limit of restarts is 1.
    assert not any("requeue" in line for line in cluster.lines())


def test_bad_input_is_not_tried_again(cluster):
    assert cluster.start(code=2).wait(30) == 2
    assert not any("requeue" in line for line in cluster.lines())


@pytest.mark.parametrize(("program", "flags", "who"), [(LIGHT, ("--actors", "2"), "monitor"), (UNIT, (), "n1:21100")])
def test_a_run_that_one_task_refuses_ends_at_once_and_is_not_tried_again(cluster, program, flags, who):
    """The others would wait for that one, and srun would kill them in the end, which gives another code."""
    (cluster.folder / f"dies-{who}").write_text("2 never\n")
    assert cluster.start(code=137, slow="cancelled", program=program, flags=flags).wait(50) == 2
    lines = cluster.lines()
    assert "scancel --batch --signal=USR2 4711" in lines and "scancel --signal=TERM 4711" in lines
    assert not any("requeue" in line for line in lines)


def test_code_2_of_an_actor_that_has_run_before_does_not_end_the_program(cluster, monkeypatch):
    monkeypatch.setattr(slurm_script, "AGAIN_S", 0)
    (cluster.folder / "dies-actor").write_text("137 runs\n2 runs\n")
    (cluster.folder / "a run").mkdir()
    (cluster.folder / "a run" / "servers.json").touch()
    assert cluster.start().wait(30) == 0
    calls = cluster.calls.read_text()
    assert calls.count("[--label][actor]") == 4 and "actor 0 died with code 2, and starts again" in calls
    assert "scancel" not in calls


@pytest.mark.parametrize(("number", "again"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_near_the_time_limit_all_are_told_and_the_job_goes_on_later_a_cancelled_one_ends(cluster, number, again):
    process = cluster.start(code=143, slow="cancelled")
    await_step(cluster)
    process.send_signal(number)
    assert process.wait(60) == (0 if again else 143)
    assert "scancel --signal=TERM 4711" in cluster.lines()
    assert ("scontrol requeue 4711" in cluster.lines()) == again


def await_step(cluster: Cluster) -> None:
    deadline = time.monotonic() + 60
    while not (cluster.folder / "calls.running").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_step_that_does_not_end_near_the_time_limit_does_not_keep_the_job_from_its_next_turn(cluster, monkeypatch):
    monkeypatch.setattr(slurm_script, "SAVE_S", 0)
    process = cluster.start(code=143, slow="requeued")
    await_step(cluster)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(50) == 0  # Without it the step takes a minute.
    assert "scontrol requeue 4711" in cluster.lines()


SWEEP = f"""
program: {LIGHT}
seeds: 2
flags: {{stop.updates: 60}}
grid: {{actors: [1, 2]}}
slots: {{number: 3}}
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_answer_apart", check._answer_here)
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP)
    return file


def test_a_sweep_becomes_an_array_whose_tasks_are_its_runs(cluster, sweep):
    assert cluster.start(flags=("--save-every-s", "9"), program=sweep, task="3").wait(30) == 0
    script = (cluster.folder / "job.sbatch").read_text()
    assert "#SBATCH --array=0,1,2,3%3\n" in script and "#SBATCH --output=sweep-%A_%a.log\n" in script
    step, *tasks = cluster.lines()
    assert "--ntasks=5" in step and len(tasks) == 5  # The runs with one actor have a task less.
    flags = "[--stop.updates][60][--save-every-s][9][--actors][2][--seed][1]"
    assert all(f"[--]{flags}[--workdir][{cluster.folder}/a run/light_program-actors2-seed1]" in task for task in tasks)
    written = plan.read(cluster.folder / "a run")
    assert written is not None and [record.seed for record in written.runs] == [0, 0, 1, 1]


def test_a_task_of_an_array_asks_for_itself_alone(cluster, sweep):
    """The array's last task has the array's own number."""
    assert cluster.start(code=1, program=sweep, flags=(), task="0").wait(30) == 0
    assert cluster.lines()[-1] == "scontrol requeue 4711_0"
    assert cluster.start(program=sweep, flags=(), task="4").wait(30) == 2


def test_a_sweep_that_can_not_be_an_array_is_refused(sweep):
    with pytest.raises(BadInput, match="--workdir is missing"):
        slurm.render(slurm.Job(sweep), [])
    sweep.write_text(f"program: [{LIGHT}, {UNIT}]\nflags: {{stop.updates: 5}}\n")
    with pytest.raises(BadInput, match="some runs of .* are one process for each machine, by --launch, and others"):
        slurm.render(slurm.Job(sweep), ["--workdir", str(sweep.parent / "runs")])
    sweep.write_text(f"program: {LIGHT}\nsample: {{trials: 2, flags: {{actors: [1, 2]}}}}\n")
    with pytest.raises(BadInput, match="sample, whose trials follow from each other"):
        slurm.render(slurm.Job(sweep), ["--workdir", str(sweep.parent / "runs")])


def test_the_options_say_what_is_needed():
    job = slurm.Job(LIGHT, nodes=2, tasks_per_node=4, cpus_per_task=3, gpus_per_node=1, time="1:00:00", partition="p")
    header = [line for line in slurm.render(job, ["--workdir", "/x"]).splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --requeue" in header and "#SBATCH --signal=B:USR1@120" in header
    for option in ("nodes=2", "ntasks-per-node=4", "cpus-per-task=3", "gpus-per-node=1", "time=1:00:00", "partition=p"):
        assert f"#SBATCH --{option}" in header


@pytest.mark.parametrize(
    ("job", "flags", "message"),
    [
        (
            {"tasks_per_node": 2},
            ["--workdir", "/x"],
            "has 4 nodes, and 1 machines with 2 tasks each have room",
        ),
        ({"nodes": 9}, ["--workdir", "/x"], "--nodes is 9; the program has 4 nodes"),
        ({}, [], "--workdir is missing"),
        ({}, ["--workdir", "runs/x"], "--workdir is 'runs/x'; it must be absolute, a folder that all machines share"),
        ({}, ["--workdir=runs/x"], "--workdir is 'runs/x'; it must be absolute"),
        ({"gpus_per_node": -1}, ["--workdir", "/x"], "--gpus-per-node is -1; it must be 0 or more"),
        ({"time": "5hours"}, ["--workdir", "/x"], "--time is '5hours'; it must be in Slurm's format, such as 90, 24:0"),
    ],
)
def test_what_does_not_fit_is_refused(job, flags, message):
    with pytest.raises(BadInput, match=message):
        slurm.render(slurm.Job(**{"program": LIGHT, **job}), flags)


def test_the_script_says_what_made_it_in_one_line(capsys):
    assert slurm.main([str(LIGHT), "--nodes", "1", "--", "--workdir", "/x\necho no"]) == 0
    shebang, made, options = capsys.readouterr().out.split("\n", 2)
    assert shebang == "#!/bin/bash" and options.startswith("#SBATCH")
    assert re.match(r"# Made by `python -m boonta\.deploy\.slurm .*'/x echo no'` of boonta \d.*, commit \w{8}", made)


def test_the_command_refuses_with_words_and_code_2(capsys):
    assert slurm.main([str(LIGHT), "--nodes", "0", "--", "--workdir", "/x"]) == 2
    assert "--nodes is 0; it must be 1 or more" in capsys.readouterr().err
