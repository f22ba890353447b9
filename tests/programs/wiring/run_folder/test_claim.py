"""The claim of a run's folder: one process at a time, and only for the run that it holds."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import shutil

import pydantic
import pytest

from boonta.agents.impala import CATCH
from boonta.agents.ppo import Config as PPO
from boonta.envs.gymnasium import Gymnasium
from boonta.nodes.snapshots import schema, store
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import Origin, read_config, without_secrets
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.tests.helpers import archives, run_folders

pytestmark = pytest.mark.once
ORIGIN = pydantic.TypeAdapter(Origin)


def claim(folder, width=8, seed=0, name="tiny_program", origin=None, settings=None, **run):
    made = {"file": __file__, "function": "tiny_program", "arguments": []} | (origin or {})
    origin = schema.load(ORIGIN, json.dumps(made))
    settings = {"game": "catch", "width": width} | (settings or {})
    return claim_workdir(name, Run(workdir=str(folder), seed=seed, **run), settings, origin)


def write_snapshot(folder, number):
    with SnapshotFolder(folder, "checkpoint").writing(number) as new:
        (new / "counts").mkdir(parents=True)
        (new / "counts" / "metadata").write_text(f'{{"updates": {number}}}')
        (new / "array").write_bytes(b"sound")


def test_a_folder_in_use(tmp_path):
    with claim(tmp_path), pytest.raises(BadInput, match="is in use by another process"):
        claim(tmp_path)


def test_a_folder_on_a_full_disk(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"{tmp_path / schema.CONFIG} can't be written: its disk is full, .* make room"):
        claim(tmp_path)


def test_a_folder_of_an_archive_is_refused_and_stays_as_it_is(tmp_path):
    archives.make(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BadInput, match=f"{tmp_path} is the folder of an archive, as its index.json shows: choose"):
        claim(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before and "index.json" in before


def test_a_folder_of_a_sweep_is_refused(tmp_path):
    (tmp_path / schema.SWEEP).write_text("{}")
    with pytest.raises(BadInput, match=f"{tmp_path} is the folder of a sweep, as its sweep.json shows: choose another"):
        claim(tmp_path)
    assert not (tmp_path / schema.CONFIG).exists()


def test_a_folder_of_another_program(tmp_path):
    claim(tmp_path, name="muzero_atari").close()
    with pytest.raises(BadInput, match=f"--workdir {tmp_path} holds a run of muzero_atari, not of tiny_program"):
        claim(tmp_path)


def test_a_folder_of_a_run_with_other_settings(tmp_path):
    claim(tmp_path).close()
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(BadInput, match="width was 8, is 4; seed was 0, is 1"):
        claim(tmp_path, width=4, seed=1)
    assert (tmp_path / "config.json").read_text() == before
    claim(tmp_path, width=4, seed=1, allow_changes=True).close()
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["width"] == 4
    assert len(list(tmp_path.glob("config-until-*.json"))) == 1


SECRET = "hunter2"
WORDS = ["catch", "--process-env", "actor:API_TOKEN=hunter2", "learner:XLA_FLAGS=--a=1 --b", "--data", "x:Y=1"]


def test_of_variables_that_may_be_secrets_only_the_names_are_recorded(tmp_path):
    """And the values of those that change how a run computes, by which its starts can be compared."""
    claim(tmp_path, process_env=("actor:API_TOKEN=hunter2", "learner:OMP_NUM_THREADS=3")).close()
    assert SECRET not in (tmp_path / "config.json").read_text()
    assert read_config(tmp_path).run["process_env"] == ["actor:API_TOKEN", "learner:OMP_NUM_THREADS=3"]


@pytest.mark.parametrize(
    "given",
    [
        ["--process-env=actor:API_TOKEN=hunter2", "learner:X=hunter2"],
        ["--process_env", "actor:API_TOKEN=a=hunter2", "learner:X="],
        ["--process_env=actor:API_TOKEN=hunter2 --b=c", "learner:X=1"],
    ],
)
def test_however_a_command_gives_secrets_its_words_are_recorded_without_them(given):
    found = without_secrets([*given, "--seed", "1"])
    assert found[1:] == ["actor:API_TOKEN", "learner:X", "--seed", "1"] and without_secrets(found) == found
    assert without_secrets(WORDS) == [WORDS[0], WORDS[1], "actor:API_TOKEN", *WORDS[3:]]


def test_how_a_run_is_evaluated_may_differ_when_it_is_resumed(tmp_path):
    """Unless returns are measured otherwise. A run from before an evaluation had a field goes on, too."""
    before = dataclasses.asdict(Evaluation(9))
    del before["max_steps"]
    claim(tmp_path, settings={"evaluation": before, "width": 8}).close()
    other = Evaluation(8, "env_steps", every_env_steps=5, max_share=0.5, max_age=3)
    claim(tmp_path, settings={"evaluation": other, "width": 8}).close()
    assert read_config(tmp_path).settings["evaluation"] == dataclasses.asdict(other)
    with pytest.raises(BadInput, match=r"holds a run with other settings: width was 8, is 4\. Give them as they were"):
        claim(tmp_path, settings={"evaluation": Evaluation(9), "width": 4})
    with pytest.raises(BadInput, match=r"evaluation\.max_steps was None, is 7\. Give them as they were"):
        claim(tmp_path, settings={"evaluation": Evaluation(9, max_steps=7), "width": 8})


def test_a_setting_that_is_new_was_as_its_class_has_it(tmp_path):
    before = {name: each for name, each in dataclasses.asdict(PPO()).items() if name != "normalise_observations"}
    claim(tmp_path, settings={"config": before}).close()
    with pytest.raises(BadInput, match=r"settings: config\.normalise_observations was False, is True\. Give"):
        claim(tmp_path, settings={"config": PPO(normalise_observations=True)})
    claim(tmp_path, settings={"config": PPO()}).close()


def test_what_changes_no_step_of_an_environment_may_differ_and_may_be_new(tmp_path):
    """Such as a setting that an earlier version of the environment didn't have."""
    before = dataclasses.asdict(Gymnasium("CartPole-v1"))
    del before["metrics"]
    claim(tmp_path, settings={"env": before}).close()
    claim(tmp_path, settings={"env": Gymnasium("CartPole-v1", metrics=("is_success",), workers=2)}).close()
    with pytest.raises(BadInput, match=r"env\.vectorised was False, is True\. Give them as they were"):
        claim(tmp_path, settings={"env": Gymnasium("CartPole-v1", vectorised=True)})


def test_a_run_that_is_claimed_again_is_not_taken_for_ended_by_its_earlier_end(tmp_path):
    claim(tmp_path).close()
    with journal.kept_in(tmp_path):
        journal.LOG.debug("%s--launch serial, process 7", journal.STARTED)
        journal.LOG.debug("%s0", journal.ENDED)
    assert journal.last_code(tmp_path) == 0
    claim(tmp_path, stop=StopRule(updates=9)).close()  # It is killed here, before it logs its start.
    assert journal.last_code(tmp_path) is None


def test_a_folder_whose_config_is_gone_is_judged_by_its_snapshots(tmp_path):
    claim(tmp_path).close()
    for number, folder in (9, "checkpoints"), (10, "members"):
        with SnapshotFolder(tmp_path / folder, "checkpoint").writing(number) as new:
            new.mkdir()
            (tmp_path / "config.json").rename(new / "config.json")
        with pytest.raises(BadInput, match="width was 8, is 4; seed was 0, is 1"):
            claim(tmp_path, width=4, seed=1)
        assert not (tmp_path / "config.json").exists()
        claim(tmp_path).close()
    (tmp_path / "checkpoints" / "9" / "config.json").write_text("{")
    (tmp_path / "config.json").unlink()
    with pytest.raises(BadInput, match="checkpoints/9/config.json is damaged, or not a run's"):
        claim(tmp_path)
    for copy in tmp_path.glob("*/*/config.json"):
        copy.unlink()
    with pytest.raises(BadInput, match="config.json is missing, and no snapshot has a copy; choose another --workdir"):
        claim(tmp_path, allow_changes=True)


def test_a_run_without_a_sound_checkpoint_is_refused_with_what_would_work(tmp_path, monkeypatch):
    claim(tmp_path).close()
    for folder, number in ("checkpoints", 9), ("checkpoints", 10), ("checkpoints/best", 9):
        write_snapshot(tmp_path / folder, number)
    first, second, best = (tmp_path / "checkpoints" / name / "array" for name in ("9", "10", "best/9"))
    second.write_bytes(b"short"[:4])
    claim(tmp_path).close()
    first.write_bytes(b"wrong")
    other = f"--start-from {tmp_path} --start-which best goes on from the best one"
    with pytest.raises(BadInput, match=f"/10: array has 4 bytes, not 5; choose another --workdir, where {other}"):
        claim(tmp_path)
    best.unlink()
    with pytest.raises(BadInput, match="none of the checkpoints in .* is sound: .*; choose another --workdir$"):
        claim(tmp_path)
    monkeypatch.setattr(store, "SMALL", 4)  # A large one is not read.
    claim(tmp_path).close()


def test_of_many_other_settings_a_few_are_listed(tmp_path):
    claim(tmp_path, settings=dict.fromkeys("abcdefghi", 1)).close()
    with pytest.raises(BadInput, match="a was 1, is 2; .*f was 1, is 2; and 3 more. Give them as they were"):
        claim(tmp_path, settings=dict.fromkeys("abcdefghi", 2))


def test_a_folder_of_another_agent(tmp_path):
    claim(tmp_path, settings={"config": CATCH}).close()
    with pytest.raises(BadInput, match="holds a run of the agent boonta.agents.impala, not of boonta.agents.ppo"):
        claim(tmp_path, settings={"config": PPO()})


def test_a_programs_file_that_has_changed_is_named(tmp_path, capsys):
    for digest in ("1", "1", "2"):
        assert "has changed since this run began" not in capsys.readouterr().out
        claim(tmp_path, origin={"provenance": run_folders.provenance(program__digest=digest)}).close()
    assert f"{__file__} has changed since this run began: if its network, loss or" in capsys.readouterr().out


@pytest.mark.parametrize(("part", "named"), [("network", "network"), ("env", "environment")])
def test_a_file_of_the_users_own_that_has_changed_is_told(tmp_path, capsys, part, named):
    for digest in ("1", "1", "2"):
        assert "has changed since this run began" not in capsys.readouterr().out
        source = {"commit": None, "dirty": None, "digest": digest}
        claim(tmp_path, origin={"provenance": run_folders.provenance(**{part: source})}).close()
    assert f"the file of its {named} has changed since this run began" in capsys.readouterr().out


def test_the_file_of_a_populations_program_that_has_changed_is_named(tmp_path, capsys):
    for digest in ("1", "1", "2"):
        assert "has changed since this run began" not in capsys.readouterr().out
        inner = {"file": "mine.py", "settings": {}, "members": [{"seed": 0}]}
        inner["source"] = {"commit": None, "dirty": None, "digest": digest}
        claim(tmp_path, origin={"provenance": run_folders.provenance(), "inner": inner}).close()
    assert "mine.py has changed since this run began" in capsys.readouterr().out


def test_a_folder_to_start_from_that_has_no_sound_checkpoint(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    with pytest.raises(BadInput, match=f"--start-from {other} has no newest checkpoint, in {other}/checkpoints"):
        claim(run, start_from=str(other))
    with pytest.raises(BadInput, match=f"in {other}/checkpoints: there is no such folder$"):
        claim(run, start_from=str(other))
    other.mkdir()
    with pytest.raises(BadInput, match=f"in {other}/checkpoints$"):
        claim(run, start_from=str(other))
    assert not run.exists()
    write_snapshot(other / "checkpoints", 3)
    claim(run, start_from=str(other)).close()
    (other / "checkpoints" / "3" / "array").write_bytes(b"wrong")
    with pytest.raises(BadInput, match="has no sound newest checkpoint: .*/3: array is altered"):
        claim(run, start_from=str(other))


def test_a_run_starts_from_a_checkpoint_by_its_number(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    for number in (3, 5):
        write_snapshot(other / "checkpoints", number)
    with pytest.raises(BadInput, match=f"--start-from {other}: .*/checkpoints has no checkpoint 4: there are 3, 5$"):
        claim(run, start_from=str(other), start_which=4)
    assert not run.exists()
    with pytest.raises(BadInput, match="would end at once, since its counters go on: updates reached 3 .limit 2."):
        claim(run, start_from=str(other), start_which=3, stop=StopRule(updates=2))
    claim(run, start_from=str(other), start_which=3).close()
    assert read_config(run).run["start_which"] == 3
    (other / "checkpoints" / "3" / "array").write_bytes(b"wrong")
    with pytest.raises(BadInput, match="has no sound checkpoint 3: .*/3: array is altered"):
        claim(run, start_from=str(other), start_which=3)
    claim(run, start_from=str(other)).close()  # The newest is sound.


def test_a_limit_that_the_run_to_start_from_has_reached(tmp_path):
    """It would have ended at once, with the code of success, and have the other run's params for its own."""
    run, other = tmp_path / "run", tmp_path / "other"
    write_snapshot(other / "checkpoints", 3)
    with pytest.raises(BadInput, match="would end at once, since its counters go on: updates reached 3 .limit 2."):
        claim(run, start_from=str(other), stop=StopRule(updates=2))
    claim(run, start_from=str(other), stop=StopRule(updates=4)).close()


def test_the_folder_that_a_resumed_run_started_from_may_be_gone(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    write_snapshot(other / "checkpoints", 3)
    claim(run, start_from=str(other)).close()
    shutil.rmtree(other)
    with pytest.raises(BadInput, match="has no newest checkpoint"):  # Nothing was saved yet.
        claim(run, start_from=str(other))
    write_snapshot(run / "checkpoints", 4)
    claim(run, start_from=str(other)).close()


def test_a_config_that_could_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    claim(tmp_path).close()
    before = (tmp_path / "config.json").read_text()

    def disk_full(handle):
        if pathlib.Path(os.readlink(f"/proc/self/fd/{handle}")).name == "config.json.new":
            os.truncate(handle, 10)
            raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="disk full"):
        claim(tmp_path, width=4, allow_changes=True)
    assert (tmp_path / "config.json").read_text() == before
