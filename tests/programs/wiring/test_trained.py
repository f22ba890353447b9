"""What a run's folder gives back: its program's settings and the params that it has learned."""

from __future__ import annotations

import dataclasses
import json

import jax
import pytest

from boonta.nodes.checkpoint import Checkpointer
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.trained import agent_and_env, as_recorded, call_of, params_of
from boonta.tests.helpers import nim, nim_program
from boonta.tests.helpers.damage import flip


def test_a_later_start_that_saved_nothing_has_other_settings_than_the_checkpoint(tmp_path):
    run = nim_program.make_run(tmp_path / "run", 1)
    started = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**started, "settings": {"heap": 7}}))
    assert call_of(run)[2]["heap"] == 5
    assert call_of(run, read_config(run))[2]["heap"] == 7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arguments": ["--nonsense", "1"]}, "was made with settings that the program no longer has"),
        ({"arguments": "--seed"}, "arguments is .*; it must be a list"),
        ({"settings": {"nonsense": 1}}, "was made with settings that the program no longer has: 'nonsense'"),
        ({"function": "nonsense"}, "has no function 'nonsense'"),
        ({"file": "/nowhere.py"}, "program file /nowhere.py doesn't exist"),
    ],
)
def test_a_config_that_its_program_does_not_fit_is_refused(tmp_path, changed, message):
    run = nim_program.make_run(tmp_path / "run", 1)
    for path in run.rglob("config.json"):  # The checkpoint has a copy.
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(BadInput, match=message):
        agent_and_env(run)


def test_a_damaged_checkpoint_is_passed_over_with_a_word_and_if_none_is_sound_nothing_is_played(tmp_path, capsys):
    folder = nim_program.make_run(tmp_path / "run", 1)
    agent, _ = agent_and_env(folder)
    Checkpointer(folder / "checkpoints").save(2, jax.tree.map(jax.numpy.asarray, nim.params(2)), {})
    flip(folder / "checkpoints" / "2" / "state" / "_METADATA")
    assert int(params_of(agent, folder)["number"][0]) == 1
    assert "warning: checkpoint 1 is used, since newer ones are not sound: " in capsys.readouterr().err
    flip(folder / "checkpoints" / "1" / "state" / "_METADATA")
    with pytest.raises(ValueError, match=r"no checkpoint in .* is sound: .*/2: state/_METADATA is altered") as raised:
        params_of(agent, folder)
    assert "--which best" not in str(raised.value)  # There is none.


def test_where_no_checkpoint_but_the_best_is_sound_it_is_named(tmp_path):
    folder = nim_program.make_run(tmp_path / "run", 1)
    agent, _ = agent_and_env(folder)
    Checkpointer(folder / "checkpoints" / "best").save(2, jax.tree.map(jax.numpy.asarray, nim.params(2)), {})
    flip(folder / "checkpoints" / "1" / "state" / "_METADATA")
    with pytest.raises(ValueError, match=r"no checkpoint in .* is sound: .*; --which best takes the one with the best"):
        params_of(agent, folder)
    assert int(params_of(agent, folder, "best")["number"][0]) == 2


def test_a_checkpoint_is_taken_by_its_number_of_updates(tmp_path):
    folder = nim_program.make_run(tmp_path / "run", 1)
    agent, _ = agent_and_env(folder)
    for name, number in ("checkpoints", 5), ("checkpoints/best", 3):
        Checkpointer(folder / name).save(number, jax.tree.map(jax.numpy.asarray, nim.params(number)), {})
    for number in (1, 3, 5):  # The best one has a number, too.
        assert int(params_of(agent, folder, number)["number"][0]) == number
    with pytest.raises(BadInput, match="run/checkpoints has no checkpoint 4: there are 1, 3, 5$"):
        params_of(agent, folder, 4)
    flip(folder / "checkpoints" / "5" / "state" / "_METADATA")
    with pytest.raises(ValueError, match=r"checkpoint .*/checkpoints/5 is not sound: state/_METADATA is altered"):
        params_of(agent, folder, 5)
    with pytest.raises(BadInput, match=r"has no checkpoint 4: there is none yet$"):
        params_of(agent, tmp_path, 4)


@pytest.mark.parametrize("which", ["last", "3", 1.5, True, None])
def test_what_is_no_choice_of_a_checkpoint_is_refused_with_what_is_allowed(tmp_path, which):
    folder = nim_program.make_run(tmp_path / "run", 1)
    agent, _ = agent_and_env(folder)
    allowed = "it must be newest, best, or a checkpoint's number of updates"
    with pytest.raises(BadInput, match=f"^which is {which!r}; {allowed}$"):
        params_of(agent, folder, which)
    with pytest.raises(ValueError, match=f"^start_which is {which!r}; {allowed}$"):
        Run(start_which=which)


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.2
    sizes: tuple[int, ...] = (1,)
    limit: int | None = None


def test_settings_are_those_of_the_run_whatever_the_defaults_have_become():
    recorded = {"game": "nim", "config": {"rate": 0.1, "sizes": [2, 3], "limit": 5}}
    settings = as_recorded({"game": "chess", "config": Config()}, recorded, {"game": str, "config": Config})
    assert settings == {"game": "nim", "config": Config(0.1, (2, 3), 5)}
    older = as_recorded({"config": Config(0.5, (4,), 6)}, {"config": {"rate": 0.1}}, {"config": Config})
    assert older == {"config": Config(0.1)}  # What it was made without is as the class has it.
    with pytest.raises(KeyError, match="gone"):
        as_recorded({"config": Config()}, {"config": {"gone": 1}}, {"config": Config})
    with pytest.raises(ValueError, match="it must be a number"):
        as_recorded({"config": Config()}, {"config": {"rate": "0.1"}}, {"config": Config})
