"""The inference node, called directly: its answers and its batches."""

from __future__ import annotations

import numpy as np
import pytest
import tree

from boonta.agents.base import Slots
from boonta.envs.base import FIRST, MID, TimeStep
from boonta.nodes import inference as module
from boonta.nodes.acting import requests
from boonta.nodes.acting.base import Remote, RemoteAct
from boonta.nodes.acting.grouped import padded
from boonta.nodes.acting.local import Acting, jit_policy
from boonta.nodes.base import Node
from boonta.nodes.inference import Inference
from boonta.nodes.variables import VariableServer, pack
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.tests.helpers import tiny
from boonta.tests.helpers.inference import AGENTS, ENV, acting_params, frames, inference, leaves

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def batches(node: Inference) -> float:
    return node.report()["counts"].get("inferences", 0)


@pytest.mark.parametrize("name", AGENTS)
def test_groups_that_share_a_batch_act_as_each_would_alone(name):
    """The same seed gives the same actions, over two episodes, with frames and recurrent state."""
    agent = AGENTS[name]()
    params, policy = acting_params(agent), jit_policy(agent.policy)
    node = inference(agent, deadline_s=1.0)
    seeds = {"actor/0/0": 5, "actor/0/1": 2**32 - 1, "actor/1/0": 6}  # The third leaves a row to pad.
    envs = {group: ENV(4, seed=seed % 7) for group, seed in seeds.items()}
    alone = {group: Acting(policy, Slots(4), seed, Stopwatch()) for group, seed in seeds.items()}
    timesteps = {group: env.reset() for group, env in envs.items()}
    for group, seed in seeds.items():
        assert node.register(group, Slots(4), seed)
    for t in range(21):
        for group, timestep in timesteps.items():
            assert node.act(group, t, leaves(timestep), timeout_s=0.0) is None
        node.step()
        for group, timestep in timesteps.items():
            version, action, *remembered = node.act(group, t, leaves(timestep), timeout_s=0.0)
            expected, *expected_remembered = alone[group](params, timestep)
            assert version == 3
            np.testing.assert_array_equal(action, expected)
            for nest, expected_nest in zip(remembered, expected_remembered, strict=True):  # The extras and the core.
                for leaf, expected_leaf in zip(nest, tree.flatten(expected_nest), strict=True):
                    np.testing.assert_allclose(leaf, expected_leaf, rtol=1e-4, atol=1e-5)
            timesteps[group] = envs[group].step(action)
    assert batches(node) == 21


def test_a_group_that_registers_again_starts_afresh():
    node = inference(AGENTS["impala with frames and a core"]())
    node.register("actor/0/0", Slots(2), 5)

    def first_steps() -> list[list[np.ndarray]]:
        answers = []
        for t in range(3):
            sent = frames(2, FIRST if t == 0 else MID, float(t))
            node.act("actor/0/0", t, sent, timeout_s=0.0)
            node.step()
            answers.append(node.act("actor/0/0", t, sent, timeout_s=0.0)[1:])
        return answers

    before = first_steps()
    node.act("actor/0/0", 3, frames(2, MID), timeout_s=0.0)  # Never answered: its actor dies.
    node.register("actor/0/0", Slots(2), 5)
    tree.map_structure(np.testing.assert_array_equal, first_steps(), before)
    assert all(np.abs(leaf).sum() > 0 for leaf in before[2][-1])  # There was a state to forget.


def test_who_asks_alone_gets_an_answer_after_the_deadline():
    node = inference(tiny.make(ENV.spec), deadline_s=0.01)
    for group in ("actor/0/0", "actor/0/1"):
        node.register(group, Slots(2), 0)
    node.act("actor/0/0", 0, frames(2, FIRST), timeout_s=0.0)
    node.step()
    assert node.act("actor/0/0", 0, frames(2, FIRST), timeout_s=0.0)
    assert batches(node) == 1


def test_no_batch_waits_for_a_group_whose_actor_has_left_and_it_is_forgotten(monkeypatch):
    monkeypatch.setattr(requests, "LATELY_S", 1e9)  # Compiling may take any time.
    node = inference(tiny.make(ENV.spec))
    for group in ("actor/0/0", "actor/1/0"):
        node.register(group, Slots(2), 0)
        node.act(group, 0, frames(2, FIRST), timeout_s=0.0)
    (lane,) = node._lanes
    assert lane.is_complete()
    node.step()
    node.act("actor/0/0", 1, frames(2, MID), timeout_s=0.0)
    assert not lane.is_complete()
    monkeypatch.setattr(requests, "LATELY_S", -1.0)
    assert lane.is_complete()
    monkeypatch.setattr(module, "FORGET_S", -1.0)
    node.register("actor/2/0", Slots(2), 0)
    assert node.act("actor/1/0", 1, frames(2, MID), timeout_s=0.0) == []
    assert set(lane.groups) == {"actor/2/0"}


def test_a_batch_holds_groups_of_one_size_and_no_more_slots_than_may_be():
    node = inference(tiny.make(ENV.spec), max_batch=5, deadline_s=0.0)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2}
    for group, size in sizes.items():
        node.register(group, Slots(size), 0)
        node.act(group, 0, frames(size, FIRST), timeout_s=0.0)

    def answered() -> set[str]:
        return {group for group, size in sizes.items() if node.act(group, 0, frames(size, FIRST), timeout_s=0.0)}

    for expected in ({"a", "c"}, {"a", "b", "c"}, set(sizes)):
        node.step()
        assert answered() == expected
    assert batches(node) == 3


def test_each_padded_number_of_groups_is_compiled_once():
    assert [padded(groups, most=6) for groups in range(1, 7)] == [1, 2, 4, 4, 6, 6]
    node = inference(tiny.make(ENV.spec), max_batch=12, deadline_s=0.0)
    groups = [f"actor/{i}/0" for i in range(6)]
    for group in groups:
        node.register(group, Slots(2), 0)
    asked = dict.fromkeys(groups, 0)
    for _ in range(2):
        for count in (1, 2, 3, 4, 5, 6):
            for group in groups[:count]:
                node.act(group, asked[group], frames(2, MID), timeout_s=0.0)
                asked[group] += 1
            node.step()
        assert node._act._cache_size() == 4
    assert batches(node) == 12


def test_the_first_batch_of_a_size_is_compiling_and_no_other(monkeypatch):
    node = inference(tiny.make(ENV.spec), deadline_s=0.0)
    act, doing = node._act, []
    monkeypatch.setattr(node, "_act", lambda *args: doing.append(node.report()["activity"]) or act(*args))
    for group in ("a", "b"):
        node.register(group, Slots(2), 0)
    for t, asking in enumerate(("a", "a", "ab", "ab")):
        for group in asking:
            node.act(group, t - 2 * (group == "b"), frames(2, MID), timeout_s=0.0)
        node.step()
    assert doing == ["compiling", "acting"] * 2


def test_newer_params_act_once_they_have_come():
    node = inference(tiny.make(ENV.spec), deadline_s=0.0)
    node.register("actor/0/0", Slots(2), 0)
    versions = []
    for t in range(2):
        node.act("actor/0/0", t, frames(2, MID), timeout_s=0.0)
        node.step()
        versions.append(node.act("actor/0/0", t, frames(2, MID), timeout_s=0.0)[0])
        node._variables.put(9, pack(acting_params(node._agent)))
        node._refresh()
    assert versions == [3, 9]


def test_with_one_thread_nobody_waits_for_others():
    agent = tiny.make(ENV.spec)
    variables = VariableServer("variables")
    variables.put(3, pack(acting_params(agent)))
    node = Inference("inference", agent, ENV, variables, deadline_s=1.0)
    node.start()
    for group in ("actor/0/0", "actor/0/1"):
        node.register(group, Slots(2), 0)
    assert node.act("actor/0/0", 0, frames(2, FIRST), timeout_s=0.0)[0] == 3
    variables.put(4, pack(acting_params(agent)))
    assert node.act("actor/0/1", 0, frames(2, FIRST), timeout_s=0.0)[0] == 4
    assert not node.ready()


def test_groups_register_again_with_a_node_that_was_started_again():
    """They go on with a fresh state and with other actions than at their first steps."""
    agent = tiny.make(ENV.spec)
    nodes = [inference(agent), inference(agent)]
    first, second = TimeStep(*frames(4, FIRST)), TimeStep(*frames(4, MID))

    class Client:
        """Goes on with the second node once the first is gone."""

        def register(self, *arguments):
            return nodes[0].register(*arguments)

        def act(self, *arguments):
            answer = nodes[0].act(*arguments[:-1], timeout_s=0.0)
            if answer is None:
                nodes[0].step()
            return answer

    act = RemoteAct(Node("actor/0"), Remote(Client()), 0, Slots(4), 5)
    seed = nodes[0]._lanes[0].groups["actor/0/0"].seed
    act(first)
    del nodes[0]
    act(second)
    (group,) = nodes[0]._lanes[0].groups.values()
    assert group.t == 1 and seed == 5 and group.seed != seed


def test_what_cannot_be_answered_is_told_to_the_one_who_asked():
    node = inference(tiny.make(ENV.spec), max_batch=8)
    assert node.act("actor/0/0", 0, frames(2, FIRST)) == []
    with pytest.raises(ValueError, match="actor/0/0 has 9 environments that step together; max_batch is 8"):
        node.register("actor/0/0", Slots(9), 0)
    node.register("actor/0/0", Slots(2), 0)
    with pytest.raises(ValueError, match=r"actor/0/0 asks for step 7; its next is 0\. Is there another actor/0/0\?"):
        node.act("actor/0/0", 7, frames(2, FIRST))
    with pytest.raises(ValueError, match=r"sent int32\[3\], .* its environment gives int32\[2\], .*\[2, 10, 5\]"):
        node.act("actor/0/0", 0, frames(3, FIRST))
    with pytest.raises(ValueError, match="float64"):
        node.act("actor/0/0", 0, [leaf.astype(np.float64) for leaf in frames(2, FIRST)])
    assert not node.ready()


@pytest.mark.parametrize(("setting", "allowed"), [({"max_batch": 0}, "at least 1"), ({"deadline_s": -1.0}, "in")])
def test_settings_that_cannot_work_are_refused(setting, allowed):
    with pytest.raises(ValueError, match=f"inference: {next(iter(setting))} is .*; it must be {allowed}"):
        Inference("inference", tiny.make(ENV.spec), ENV, None, **setting)


def test_nobody_is_known_before_the_node_has_started():
    node = Inference("inference", tiny.make(ENV.spec), ENV, None)
    assert node.register("actor/0/0", Slots(2), 0, timeout_s=0.0) is None
