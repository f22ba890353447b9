"""How a learner publishes its params."""

from __future__ import annotations

import threading
from collections.abc import Callable

import jax

from boonta.agents.base import Nest
from boonta.nodes.acting.base import VariablesHandle
from boonta.nodes.base import Node
from boonta.nodes.variables import DeviceVariables, pack
from boonta.nodes.watch.calls import answered

RENEW_S = 1.0  # Time between two looks at whether the variable server still has the newest params.


def open_publishing(learner: Node, variables: VariablesHandle | DeviceVariables | None) -> Callable[[int, Nest], None]:
    """The function by which a learner publishes: `(version, params)`, the version being its number of updates.

    Args:
      learner: the learner, in its own process.
      variables: handle of the variable server, or `DeviceVariables`; None if another learner publishes the same.
    """
    if variables is None:
        return lambda version, params: None
    if isinstance(variables, DeviceVariables):
        return variables.put
    publisher = Publisher(variables, lambda: learner.stopping)
    threading.Thread(target=publisher.keep, args=(learner.sleep,), daemon=True).start()
    return publisher.put


class Publisher:
    """Publishes a learner's params in a variable server, as bytes.

    A variable server that has been started again has lost its params. It gets them again from `renew`, since it may be
    long until the learner publishes the next: it may wait for the data of actors that wait for params.

    Args:
      variables: handle of the variable server.
      stopping: whether the learner is to stop.
    """

    def __init__(self, variables: VariablesHandle, stopping: Callable[[], bool]):
        self._variables = variables
        self._stopping = stopping
        self._newest: tuple[int, bytes] = (-1, b"")
        self._sending = threading.Lock()

    def put(self, version: int, params: Nest) -> None:
        """Publishes params; waits for a variable server that is away."""
        with self._sending:
            self._newest = version, pack(jax.device_get(params))
            self._send()

    def keep(self, sleep: Callable[[float], None]) -> None:
        """Runs beside the learner's steps, until it is to stop: renews the params where that is needed.

        Args:
          sleep: waits for the seconds that it is given, or until the learner is asked to stop.
        """
        while not self._stopping():
            sleep(RENEW_S)
            if not self._stopping():
                self.renew()

    def renew(self) -> None:
        """Publishes the newest params again if the variable server doesn't have them."""
        with self._sending:
            version, packed = self._newest
            if not packed:  # The server may still have those of the learner's earlier life.
                return
            found = answered(self._variables.get, version)
            if found is not None and found[0] != version:
                self._send()

    def _send(self) -> None:
        def put() -> bool:
            self._variables.put(*self._newest)
            return True

        while not answered(put) and not self._stopping():
            pass
