"""The inference node: acts, in batches on its devices, for the groups of environments of many actors and reanalyzers.

See "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central Inference" (https://arxiv.org/abs/1910.06591).
They send time steps and receive actions; params, frame stacks and recurrent states stay on this node.

Glossary of shapes: G groups of a batch, B slots of a group.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import tree

from boonta.agents.base import Agent, Slots
from boonta.envs.base import Env
from boonta.nodes.acting.base import VariablesHandle
from boonta.nodes.acting.grouped import jit_for_groups, padded
from boonta.nodes.acting.local import acting_params
from boonta.nodes.acting.requests import Lane, Request, SlotGroup
from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.variables import VariableClient
from boonta.nodes.watch.reporter import MonitorHandle

REFRESH_S = 0.05  # Seconds between looks for newer params.
FORGET_S = 1_800.0  # Time after which it is forgotten: a longer pause of an actor costs it its recurrent state.


class Inference(Node):
    """Acts with `agent.policy` for every group that registers, with the newest params.

    Each device of the process has a thread and groups of its own: a group goes to the device with the fewest slots, and
    stays there with its state. This is how SEED RL uses several cores. A process has one device where JAX finds only
    the CPU.

    A batch holds the requests of groups of one size. It starts when it is full, when every group that has lately asked
    has a request, or `deadline_s` after the first request. Each group has its own state and random stream and is one
    row of a `vmap`, so its actions are those that it would draw alone; the other groups only affect rounding.

    A batch is padded to a power of two groups, or to the most that fit. The policy is compiled once for each of these
    sizes, when it first occurs. A single size would make a batch of few groups cost as much as a full one, which only a
    large accelerator can afford.

    Args:
      name: name of this node.
      agent: its policy acts.
      env: the environment of the actors; only its spec is used.
      variables: handle of the variable server.
      monitor: handle of the monitor.
      max_batch: the most environment slots in a batch.
      deadline_s: how long the first request waits for others.
    """

    role = "inference"
    end_order = 1  # It calls the variable server.
    methods = ("register", "act")
    saves = False
    answer_s = 5.0  # A request is answered within half a second, if only that there are no actions yet.

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: VariablesHandle,
        monitor: MonitorHandle | None = None,
        *,
        max_batch: int = 256,
        deadline_s: float = 0.002,
    ):
        super().__init__(name, monitor)
        if max_batch < 1:
            raise ValueError(f"{name}: max_batch is {max_batch}; it must be at least 1")
        if not 0 <= deadline_s <= 1:
            raise ValueError(f"{name}: deadline_s is {deadline_s}; it must be in [0, 1]")
        self._agent = agent
        self._env = env
        self._variables = variables
        self._max_batch = max_batch
        self._deadline_s = deadline_s
        self._changed = threading.Condition()  # Its lock guards the attributes below.
        self._lanes: list[Lane] = []
        self._thread: int | None = None  # The node's own thread, once it has started.

    def start(self) -> None:
        self._spec = self._env.spec
        self._params = VariableClient(self._variables, acting_params(self._agent))
        self._act = jit_for_groups(self._agent.policy)
        self._executed = jax.jit(self._agent.policy.executed)
        with self._changed:
            self._lanes = [Lane(device, self._max_batch) for device in jax.local_devices()]
            self._thread = threading.get_ident()
            self._changed.notify_all()

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return (*(functools.partial(self._serve_batch, lane) for lane in self._lanes), self._refresh)

    # Actors and reanalyzers call these two: in threads of the server, or with `--launch serial` in the node's own.

    def register(self, name: str, slots: Sequence[Any], seed: int, timeout_s: float = 0.5) -> bool | None:
        """Registers a group with a fresh state; callers do so when they start or restart.

        Args:
          name: name of the group, unique in the program, such as "actor/0/1".
          slots: the fields of the group's `agents.base.Slots`.
          seed: seed of the policy.
          timeout_s: how long to wait for the start of this node.

        Returns:
          True, or None if this node hasn't started within `timeout_s`.

        Raises:
          ValueError: the group doesn't fit into a batch.
        """
        own = Slots(*slots)
        if not 1 <= own.size <= self._max_batch:
            raise ValueError(
                f"{self.name}: {name} has {own.size} environments that step together; max_batch is {self._max_batch}"
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._thread is not None, timeout_s):
                return None
            self._forget(name)
            state = self._agent.policy.initial_state(own)
            lane = min(self._lanes, key=lambda lane: lane.slots)
            lane.add(name, SlotGroup(own.size, seed, state))
        return True

    def act(
        self,
        name: str,
        t: int,
        leaves: Sequence[np.ndarray],
        executed: np.ndarray | None = None,
        timeout_s: float = 0.5,
    ) -> list[Any] | None:
        """Returns the policy's output in step t of a group. A repeated request for the same step continues to wait.

        Args:
          name: the group's registered name.
          t: number of the step: 0, 1, ….
          leaves: step type, reward, discount and the leaves of the observation, each [B, ...].
          executed: the action [B, ...] that the environments took in step t - 1, if it wasn't the answer.
          timeout_s: how long to wait for the answer.

        Returns:
          `[version of the params, action [B, ...], leaves of the extras [B, ...], leaves of the core before the step]`;
          None after `timeout_s`; an empty list if the group is unknown, because this node has been started again or
          the group has long been silent, and must register.

        Raises:
          ValueError: this is not the group's next step, or shapes or dtypes are not its environment's.
        """
        with self._changed:
            lane = next((lane for lane in self._lanes if name in lane.groups), None)
            if lane is None:
                return []
            lane.groups[name].asked_at = time.monotonic()
            request = self._request(lane, name, t, leaves, executed)
        if threading.get_ident() == self._thread and not request.answered.is_set():
            # One thread runs all nodes, so there can be no other request, and only this call can serve this one.
            self.wait_for("params", self._params.fetch)
            with self._changed:
                requests = lane.take()
            self._serve(lane, requests)
        return request.answer if request.answered.wait(timeout_s) else None

    def _request(
        self, lane: Lane, name: str, t: int, leaves: Sequence[np.ndarray], executed: np.ndarray | None
    ) -> Request:
        """Returns the group's request for step t; queues it if it is new."""
        group = lane.groups[name]
        if group.request is not None and group.request.t == t:
            return group.request
        if t != group.t:
            raise ValueError(f"{self.name}: {name} asks for step {t}; its next is {group.t}. Is there another {name}?")
        self._check(name, group.num_envs, leaves, executed)
        group.request = Request(group, t, leaves, executed)
        lane.waiting.append(group.request)
        self._changed.notify_all()
        return group.request

    def _forget(self, name: str) -> None:
        """Forgets this group, and those that haven't asked for long: actors that come and go have ever new names."""
        since = time.monotonic() - FORGET_S
        for lane in self._lanes:
            for other in [each for each, group in lane.groups.items() if each == name or group.asked_at < since]:
                lane.drop(other)

    def _check(self, name: str, num_envs: int, leaves: Sequence[np.ndarray], executed: np.ndarray | None) -> None:
        spec = self._spec
        wanted = [(leaf.shape, np.dtype(leaf.dtype)) for leaf in tree.flatten(spec.timestep)]
        if executed is not None:
            wanted.append((spec.actions.shape, np.dtype(spec.actions.dtype)))
            leaves = [*leaves, executed]
        wanted = [((num_envs, *shape), dtype) for shape, dtype in wanted]
        got = [(leaf.shape, leaf.dtype) for leaf in leaves]
        if got != wanted:
            raise ValueError(f"{self.name}: {name} sent {_describe(got)}; its environment gives {_describe(wanted)}")

    # The node's own threads call the methods below.

    def step(self) -> None:
        """Serves one batch, of the first device that has requests."""
        self._serve_batch(next((lane for lane in self._lanes if lane.waiting), self._lanes[0]))

    def ready(self) -> bool:
        return any(lane.waiting for lane in self._lanes)

    def _serve_batch(self, lane: Lane) -> None:
        requests = self.wait_for("requests", functools.partial(self._next_batch, lane), AWAY_S)
        if self._params.newest[0] < 0:
            self.wait_for("params", self._params.fetch)
        self._serve(lane, requests)

    def _refresh(self) -> None:
        with self.stopwatch("fetching params"):
            self._params.fetch(REFRESH_S)
        with self.stopwatch("resting"):
            self.sleep(REFRESH_S)

    def _next_batch(self, lane: Lane, timeout_s: float) -> list[Request] | None:
        """Waits until a batch can start and returns its requests; None if there is no request within `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: lane.waiting, timeout_s):
                return None
            left = lane.waiting[0].received_at + self._deadline_s - time.monotonic()
            self._changed.wait_for(lane.is_complete, max(0.0, left))
            # It is empty if the only group with a request has registered again meanwhile.
            return lane.take() or None

    def _serve(self, lane: Lane, requests: Sequence[Request]) -> None:
        version, params = lane.params(self._params.newest)
        num_envs = requests[0].group.num_envs
        groups = padded(len(requests), self._max_batch // num_envs)
        with self.stopwatch("acting" if (groups, num_envs) in lane.compiled else "compiling"):
            for request in requests:
                if request.executed is not None:
                    request.group.state = self._executed(request.group.state, request.executed)
            rows = [*requests, *[requests[0]] * (groups - len(requests))]
            columns = [np.stack(column) for column in zip(*(row.leaves for row in rows))]  # [G, B, ...]
            timestep = tree.unflatten_as(self._spec.timestep, columns)
            seeds = np.array([row.group.seed for row in rows], np.uint32)
            steps = np.array([row.t for row in rows], np.int32)
            out = self._act(params, seeds, steps, timestep, [row.group.state for row in rows])
            action, extras, core = jax.device_get(out[:3])
            extras, core = tree.flatten(extras), tree.flatten(core)
        lane.compiled.add((groups, num_envs))
        with self._changed:
            for i, request in enumerate(requests):
                request.group.state = out[3][i]
                request.group.t += 1
                request.answer = [version, action[i], [leaf[i] for leaf in extras], [leaf[i] for leaf in core]]
                request.answered.set()
        self.count(inferences=1)


def _describe(leaves: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in leaves)
