"""Reanalyzers of an archive, over the in-process queue: every recorded step is written again with new extras."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Policy, Steps
from boonta.envs.base import FIRST, LAST, MID
from boonta.envs.catch import Catch
from boonta.nodes.archive import files as archive
from boonta.nodes.archive.reanalyzer import ArchiveReanalyzer, as_episode, make_source, replayed_shapes
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import VariableServer, pack
from boonta.tests.helpers import tiny

LENGTH = 6


@pytest.fixture
def agent():
    """The tiny agent, which remembers the paddle's column, and writes as a reanalyzer."""
    agent = tiny.make(Catch().spec, batch_size=1, length=LENGTH)

    def act(params, key, timestep, state):
        action, _, state = agent.policy.step(params, key, timestep, state)
        return action, {"paddle": jnp.argmax(timestep.observation[:, -1], axis=-1).astype(jnp.int32)}, state

    table = dataclasses.replace(agent.tables[0], writer="reanalyzer", size=64)
    return agent._replace(policy=Policy(agent.policy.initial_state, act), tables=(table,))


@pytest.fixture
def variables():
    server = VariableServer("variables")
    server.put(7, pack({"linear": {"w": np.zeros((50, 3), np.float32)}}))
    return server


def play(episodes: int, seed: int = 0) -> list[Steps]:
    """Episodes of Catch by a random player, as actors store them, without extras."""
    rng = np.random.default_rng(seed)
    env = Catch()(1, seed)
    timestep, rows, played = env.reset(), [], []
    while len(played) < episodes:
        action = rng.integers(0, 3, 1).astype(np.int32)
        version = np.full(1, len(played), np.int32)
        rows.append(
            Steps(timestep.observation, timestep.step_type, timestep.reward, timestep.discount, action, (), version)
        )
        if timestep.step_type[0] == LAST:
            played.append(jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows))
            rows = []
        timestep = env.step(action)
    return played


def make_archive(folder, agent, trajectories: list[Steps]) -> archive.Archive:
    writer = archive.ArchiveWriter(folder, Catch(), chunk_steps=30)
    for trajectory in trajectories:
        writer.add(trajectory)
    writer.close()
    return archive.open_archive(folder, Catch(), replayed_shapes(agent, Catch().spec))


def recorded(steps: Steps) -> tuple[bytes, ...]:
    """All that was recorded and must not change."""
    return tuple(leaf.tobytes() for leaf in steps[:5])


def test_a_round_writes_every_recorded_step_once_with_new_extras_and_version(agent, variables, tmp_path):
    episodes = play(12)
    opened = make_archive(tmp_path, agent, episodes)
    queue = QueueTable(agent.tables[0])
    node = ArchiveReanalyzer("reanalyzer/0", agent, Catch(), variables, queue, archive=opened, num_envs=1)
    node.start()
    for _ in range(1 + 5 * 26):  # 131 rows of one slot: a round, less what the first episode lost, and a bit of another
        node.step()
    counts = node.report()["counts"]
    assert counts == {"reanalyzed_steps": 131, "reanalyzed_sequences": 26}
    pieces = [queue.get(1.0)[0].shards[0] for _ in range(26)]  # Leaves [T, 1, ...].
    sequences = [jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], piece) for piece in pieces]
    for sequence in sequences:
        assert sequence.observation.shape == (LENGTH, 10, 5)
        assert set(sequence.version) == {7}
        np.testing.assert_array_equal(sequence.extras["paddle"], sequence.observation[:, -1].argmax(-1))
    # Sequences share a row with the next: without it they are the slot's stream.
    stream = jax.tree.map(lambda *leaves: np.concatenate([leaf[:-1] for leaf in leaves]), *sequences)
    ends = np.flatnonzero(stream.step_type == LAST) + 1
    replayed = [
        (
            stream.observation[start:end].tobytes(),
            stream.action[start:end].tobytes(),
            stream.reward[start:end].tobytes(),
        )
        for start, end in zip(ends[:11], ends[1:12])
    ]
    recorded = {(e.observation.tobytes(), e.action.tobytes(), e.reward.tobytes()) for e in episodes}
    assert len(set(replayed)) == len(replayed) == 11
    assert set(replayed) <= recorded


def test_the_episodes_that_it_replays_do_not_pile_up(agent, variables, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        ArchiveReanalyzer,
        "make_env",
        lambda *args, make=ArchiveReanalyzer.make_env: made.append(make(*args)) or made[-1],
    )
    opened, queue = make_archive(tmp_path, agent, play(12)), QueueTable(agent.tables[0])
    node = ArchiveReanalyzer("reanalyzer/0", agent, Catch(), variables, queue, archive=opened, num_envs=1)
    node.start()
    for _ in range(60):
        node.step()
    assert made[0].episodes() == []
    assert not node.report()["samples"]


def test_the_policy_is_told_what_was_played_and_its_slots_are_none_of_the_actors(agent, variables, tmp_path):
    def act(params, key, timestep, state):
        return jnp.zeros_like(state), {"before": state}, jnp.zeros_like(state)

    begun = []

    def initial_state(slots):
        begun.append(slots)
        return jnp.zeros(slots.size, jnp.int32)

    policy = Policy(initial_state, act, executed=lambda state, action: action + 10)
    agent, queue = agent._replace(policy=policy), QueueTable(agent.tables[0])
    opened = make_archive(tmp_path, agent, play(3))
    node = ArchiveReanalyzer("reanalyzer/0", agent, Catch(), variables, queue, archive=opened, num_envs=2)
    node.start()
    assert begun[-1].size == 2 and begun[-1].alike
    for _ in range(LENGTH):
        node.step()
    steps = jax.tree.map(np.asarray, queue.get(1.0)[0].shards[0])
    np.testing.assert_array_equal(steps.extras["before"][1:], steps.action[:-1] + 10)
    assert len(np.unique(steps.action)) > 1


def test_slots_do_not_keep_step_and_each_trajectory_comes_once_a_round(agent, tmp_path):
    episodes = play(12)
    opened = make_archive(tmp_path, agent, episodes)
    source = make_source(opened, num_envs=4, seed=0)
    first = [source() for _ in range(4)]
    assert len({len(steps.reward) for steps in first}) > 1
    assert all(2 <= len(steps.reward) <= 10 and steps.step_type[0] == FIRST for steps in first)
    rest = [source() for _ in range(8)]
    assert [len(steps.reward) for steps in rest] == [10] * 8
    ends = sorted(steps.observation[-2:].tobytes() for steps in [*first, *rest])
    assert ends == sorted(steps.observation[-2:].tobytes() for steps in episodes)
    every = make_source(opened, num_envs=64, seed=0)
    assert {len(every().reward) for _ in range(64)} == set(range(2, 11))


def test_a_piece_of_an_episode_is_truncated_where_its_record_ends(agent, tmp_path):
    (episode,) = play(1)
    piece = as_episode(jax.tree.map(lambda leaf: leaf[3:7], episode._replace(reward=np.ones(10, np.float32))))
    assert piece.step_type.tolist() == [FIRST, MID, MID, LAST]
    assert piece.discount.tolist() == [1.0] * 4  # Above 0 on LAST: the episode is truncated.
    assert piece.reward.tolist() == [0.0, 1.0, 1.0, 1.0]
    assert as_episode(episode).discount[-1] == 0.0
    assert episode.step_type[3] == MID  # The archive's own arrays are unchanged.


def test_an_agent_without_a_table_for_it_is_refused(agent, variables, tmp_path):
    opened = make_archive(tmp_path, agent, play(2))
    actors = agent._replace(tables=(dataclasses.replace(agent.tables[0], writer="actor"),))
    with pytest.raises(ValueError, match="no table of the agent's is for the reanalyzer to write to"):
        ArchiveReanalyzer("reanalyzer/0", actors, Catch(), variables, None, archive=opened)
