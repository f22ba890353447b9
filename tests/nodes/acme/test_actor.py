"""The node that runs an Acme loop counts, writes, logs, and ends with its program."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from unittest import mock

import jax
import pytest

from boonta.agents import impala, muzero
from boonta.agents.groups import Torso
from boonta.envs.catch import Catch
from boonta.nodes.acting.base import Remote, tables_only
from boonta.nodes.base import Stopped
from boonta.nodes.variables import Colocated, VariableServer, pack
from boonta.tests.helpers import guess, tiny

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.acme.actor import AcmeActor, AcmeLoop  # noqa: E402
from boonta.tests.helpers import scripted  # noqa: E402

CONFIG = dataclasses.replace(muzero.CATCH, torso=Torso("mlp", widths=(8,)), reanalyze_ratio=1.0)


class Rows(list):
    """A store that keeps the rows it is given."""

    def open_writer(self, tables, num_envs, wait_for, group):
        return self

    def append(self, steps):
        super().append(steps)
        return 1

    def close(self):
        """Nothing is open."""


def test_an_episode_is_a_step_and_all_is_counted_and_logged():
    agent, rows, variables = tiny.make(Catch().spec), Rows(), VariableServer("variables")
    params = jax.device_get(agent.update.params(agent.update.init(jax.random.PRNGKey(0))))
    variables.put(6, pack(params))
    seen = []

    def make_loop(parts):
        seen.append(parts)
        parts.source.get_variables(["policy"])
        return scripted.make_loop(parts)

    node = AcmeActor("actor/0", agent, Catch(), variables, rows, make_loop=make_loop, seed=5)
    node.start()
    node.program_counts = {"env_steps": 90.0, "updates": 6.0}
    node.step()
    node.step()
    report = node.report()
    assert report["counts"] == {"env_steps": 18, "frames": 18, "episodes": 2, "sequences": 20}
    assert report["samples"]["episode_steps"] == [9, 9]
    assert report["metrics"].pop("acme/steps_per_second") > 0
    assert report["metrics"] == {"acme/episode_return": report["samples"]["return"][-1], "acme/episode_length": 9}
    assert len(rows) == 20 and {int(row.version[0]) for row in rows} == {6}
    again = AcmeActor("actor/0", agent, Catch(), variables, Rows(), make_loop=make_loop, seed=5)
    again.past_lives = 1
    again.start()
    assert seen[0].seed != seen[1].seed  # It must not play the same episodes again.
    node.stop()
    with pytest.raises(Stopped):
        node.step()
    node.close()


def test_a_loop_without_tables_is_a_node_too():
    node = AcmeLoop("acme", Catch(), make_loop=lambda parts: scripted.make_loop(parts._replace(adder=mock.Mock())))
    node.start()
    node.step()
    assert node.report()["counts"] == {"env_steps": 9, "frames": 9, "episodes": 1}
    node.close()


def test_other_numbers_of_an_episode_are_sampled_beside_its_return():
    node = AcmeLoop("acme/0", guess.measured, make_loop=lambda parts: None)
    node.start()
    node._environment.reset()
    for _ in range(guess.STEPS):
        node._environment.step(0)
    samples = node.report()["samples"]
    assert samples["episode/is_success"] == [(1 + samples["return"][0]) / 2]
    assert samples["episode/steps"] == samples["episode_steps"] == [guess.STEPS]


@pytest.mark.parametrize(
    ("agent", "variables", "message"),
    [
        (tables_only(tiny.make(Catch().spec)), Remote(None), "acts itself, so the program must have no inference node"),
        (tiny.make(Catch().spec), Colocated(None, None), "--launch sebulba can't run an Acme loop; local_mp"),
        (impala.make(impala.CATCH, Catch().spec), None, r"^acme/0: the agent learns from \['trajectories'\]"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_starts(agent, variables, message):
    with pytest.raises(ValueError, match=message):
        AcmeActor("acme/0", agent, Catch(), variables, None, make_loop=scripted.make_loop)


def test_the_constructor_computes_nothing_where_reanalyzers_find_the_extras():
    agent = muzero.make(CONFIG, Catch().spec)
    with mock.patch.object(jax, "eval_shape", side_effect=AssertionError):
        AcmeActor("acme/0", agent, Catch(), None, None, make_loop=scripted.make_loop)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.modules['acme'] = None; import boonta.nodes.acme", "boonta.nodes.acme needs dm-acme 0.4.0"),
    ],
)
def test_what_is_missing_or_late_is_said(code, message):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr
