"""The inference node: acts, in batches on one device, for the groups of environments of many actors.

See "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central Inference" (https://arxiv.org/abs/1910.06591).
Actors send time steps and receive actions; params, frame stacks and recurrent states stay on this node.

Glossary of shapes: G groups of a batch, B slots of a group.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import tree

from boonta.agents.base import Agent, Slots, initial_state_of
from boonta.envs.base import Env, TimeStep
from boonta.nodes.acting.grouped import jit_for_groups, padded
from boonta.nodes.acting.local import acting_params
from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.variables import VariableClient

Nest = Any
REFRESH_S = 0.05  # Seconds between polls for newer params.
LATELY_S = 10.0  # Time since its last request after which no batch waits for a group: its actor may have left.
FORGET_S = 1_800.0  # Time after which it is forgotten: a longer pause of an actor costs it its recurrent state.


@dataclasses.dataclass
class _Group:
    """Environments of an actor that step together.

    Attributes:
      num_envs: B.
      seed: seed of the policy.
      state: the policy's state, leaves [B, ...], on the device.
      t: number of the step that it must request next.
      request: its last request.
      asked_at: the time of its last call, by the monotonic clock.
    """

    num_envs: int
    seed: int
    state: Nest
    t: int = 0
    request: _Request | None = None
    asked_at: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def waits(self) -> bool:
        """Whether its last request has no answer yet."""
        return self.request is not None and not self.request.answered.is_set()


class _Request:
    """A request for the actions of a group in step t, with the leaves of its `TimeStep` [B, ...], and its answer."""

    def __init__(self, group: _Group, t: int, leaves: Sequence[np.ndarray]):
        self.group, self.t, self.leaves = group, t, leaves
        self.received_at = time.monotonic()
        self.answered = threading.Event()
        self.answer: list[Any] = []


class Inference(Node):
    """Acts with `agent.policy` for every group that registers, with the newest params.

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
    serves = 1  # It calls the variable server.
    served = ("register", "act")

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        monitor: Any = None,
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
        self._groups: dict[str, _Group] = {}
        self._waiting: list[_Request] = []
        self._thread: int | None = None  # The node's own thread, once it has started.

    def start(self) -> None:
        self._spec = self._env.spec
        self._params = VariableClient(self._variables, acting_params(self._agent))
        self._act = jit_for_groups(self._agent.policy)
        with self._changed:
            self._thread = threading.get_ident()
            self._changed.notify_all()

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return (self.step, self._refresh)

    # Actors call these two methods: in threads of the server, or with `--launch serial` in the node's own.

    def register(self, name: str, num_envs: int, seed: int, first=0, total=None, timeout_s: float = 0.5) -> bool | None:
        """Registers a group with a fresh state; actors call it when they start or restart.

        Args:
          name: name of the group, unique in the program, such as "actor/0/1".
          num_envs: B, environment slots of the group.
          seed: seed of the policy.
          first, total: the group's place among all slots, see `agents.base.Slots`.
          timeout_s: how long to wait for the start of this node.

        Returns:
          True, or None if this node hasn't started within `timeout_s`.

        Raises:
          ValueError: the group doesn't fit into a batch.
        """
        if not 1 <= num_envs <= self._max_batch:
            raise ValueError(
                f"{self.name}: {name} has {num_envs} environments that step together; max_batch is {self._max_batch}"
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._thread is not None, timeout_s):
                return None
            old = self._groups.get(name)
            self._waiting = [request for request in self._waiting if request.group is not old]
            self._forget()
            slots = Slots(num_envs, first, total)
            self._groups[name] = _Group(num_envs, seed, initial_state_of(self._agent.policy, slots))
        return True

    def act(self, name: str, t: int, leaves: Sequence[np.ndarray], timeout_s: float = 0.5) -> list[Any] | None:
        """Returns the policy's output in step t of a group. A repeated request for the same step continues to wait.

        Args:
          name: the group's registered name.
          t: number of the step: 0, 1, ….
          leaves: step type, reward, discount and the leaves of the observation, each [B, ...].
          timeout_s: how long to wait for the answer.

        Returns:
          `[version of the params, action [B, ...], leaves of the extras [B, ...], leaves of the core before the step]`;
          None after `timeout_s`; an empty list if the group is unknown, because this node has been started again or
          the group has long been silent, and must register.

        Raises:
          ValueError: this is not the group's next step, or shapes or dtypes are not its environment's.
        """
        with self._changed:
            if name not in self._groups:
                return []
            self._groups[name].asked_at = time.monotonic()
            request = self._request(name, t, leaves)
        if threading.get_ident() == self._thread and not request.answered.is_set():
            # One thread runs all nodes, so there can be no other request, and only this call can serve this one.
            self.wait_for("params", self._params.poll)
            self._serve(self._take())
        return request.answer if request.answered.wait(timeout_s) else None

    def _request(self, name: str, t: int, leaves: Sequence[np.ndarray]) -> _Request:
        """Returns the group's request for step t; queues it if it is new."""
        group = self._groups[name]
        if group.request is not None and group.request.t == t:
            return group.request
        if t != group.t:
            raise ValueError(f"{self.name}: {name} asks for step {t}; its next is {group.t}. Is there another {name}?")
        self._check(name, group.num_envs, leaves)
        group.request = _Request(group, t, leaves)
        self._waiting.append(group.request)
        self._changed.notify_all()
        return group.request

    def _forget(self) -> None:
        """Forgets the groups that haven't asked for long: actors that come and go have ever new names."""
        since = time.monotonic() - FORGET_S
        self._groups = {name: group for name, group in self._groups.items() if group.asked_at >= since}

    def _check(self, name: str, num_envs: int, leaves: Sequence[np.ndarray]) -> None:
        spec = self._spec
        scalars = [((), np.dtype(dtype)) for dtype in (np.int32, np.float32, np.float32)]
        wanted = [*scalars, *((leaf.shape, np.dtype(leaf.dtype)) for leaf in tree.flatten(spec.observations))]
        wanted = [((num_envs, *shape), dtype) for shape, dtype in wanted]
        got = [(leaf.shape, leaf.dtype) for leaf in leaves]
        if got != wanted:
            raise ValueError(f"{self.name}: {name} sent {_describe(got)}; its environment gives {_describe(wanted)}")

    # The node's own threads call the methods below.

    def step(self) -> None:
        """Serves one batch."""
        requests = self.wait_for("requests", self._next_batch, AWAY_S)
        if self._params.snapshot()[0] < 0:
            self.wait_for("params", self._params.poll)
        self._serve(requests)

    def ready(self) -> bool:
        return bool(self._waiting)

    def _refresh(self) -> None:
        with self.stopwatch("fetching params"):
            self._params.poll(REFRESH_S)
        with self.stopwatch("resting"):
            self.sleep(REFRESH_S)

    def _next_batch(self, timeout_s: float) -> list[_Request] | None:
        """Waits until a batch can start and returns its requests; None if there is no request within `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, timeout_s):
                return None
            left = self._waiting[0].received_at + self._deadline_s - time.monotonic()
            self._changed.wait_for(self._is_complete, max(0.0, left))
            return self._take() or None  # It is empty if the only group with a request has registered again meanwhile.

    def _is_complete(self) -> bool:
        """Whether no further request can join the batch."""
        slots = sum(request.group.num_envs for request in self._waiting)
        since = time.monotonic() - LATELY_S
        return slots >= self._max_batch or all(each.waits or each.asked_at < since for each in self._groups.values())

    def _take(self) -> list[_Request]:
        """Takes the oldest request and as many others of its size as fit."""
        with self._changed:
            size = self._waiting[0].group.num_envs if self._waiting else 1
            alike = [request for request in self._waiting if request.group.num_envs == size]
            batch = alike[: self._max_batch // size]
            self._waiting = [request for request in self._waiting if request not in batch]
            return batch

    def _serve(self, requests: Sequence[_Request]) -> None:
        version, params = self._params.snapshot()
        with self.stopwatch("acting"):
            most = self._max_batch // requests[0].group.num_envs
            padding = padded(len(requests), most) - len(requests)
            rows = [*requests, *[requests[0]] * padding]
            columns = [np.stack(column) for column in zip(*(row.leaves for row in rows))]  # [G, B, ...]
            step_type, reward, discount, *seen = columns
            timestep = TimeStep(step_type, reward, discount, tree.unflatten_as(self._spec.observations, seen))
            seeds = np.array([row.group.seed for row in rows], np.uint32)
            steps = np.array([row.t for row in rows], np.int32)
            out = self._act(params, seeds, steps, timestep, [row.group.state for row in rows])
            action, extras, core = jax.device_get(out[:3])
            extras, core = tree.flatten(extras), tree.flatten(core)
        with self._changed:
            for i, request in enumerate(requests):
                request.group.state = out[3][i]
                request.group.t += 1
                request.answer = [version, action[i], [leaf[i] for leaf in extras], [leaf[i] for leaf in core]]
                request.answered.set()
        self.count(inferences=1)


def _describe(leaves: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in leaves)
