from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.nodes import variables
from boonta.nodes.acting.allowance import Allowance
from boonta.nodes.acting.refresh import Refresh
from boonta.nodes.inference import Inference
from boonta.nodes.learning.publishing import Publisher
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import DeadlineExceeded
from boonta.nodes.rpc.server import Server
from boonta.nodes.variables import VariableClient, VariableServer, pack, unpack
from boonta.tests.helpers.deadline import DEADLINE_S

PARAMS = {"net/~/linear": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.float32)}}


def test_packed_params_come_back_bit_for_bit():
    back = unpack(pack(PARAMS), jax.eval_shape(lambda: PARAMS))
    jax.tree.map(np.testing.assert_array_equal, back, PARAMS)


def test_params_of_another_network_are_refused_by_name():
    other = {"net/~/linear": {"w": np.zeros((2, 4), np.float32), "b": np.zeros(3, np.float32)}}
    with pytest.raises(ValueError, match=r"w'\] is F32 \(2, 3\), expected F32 \(2, 4\)"):
        unpack(pack(PARAMS), other)
    with pytest.raises(ValueError, match="missing .*other.*unknown .*linear"):
        unpack(pack(PARAMS), {"other": {"w": np.zeros(1, np.float32)}})


def test_params_of_another_dtype_are_refused_even_of_the_same_size():
    for dtype, name in ((np.float16, "F16"), (np.int32, "I32")):
        other = {"net/~/linear": {"w": PARAMS["net/~/linear"]["w"].astype(dtype), "b": np.zeros(3, np.float32)}}
        with pytest.raises(ValueError, match=rf"w'\] is {name} \(2, 3\), expected F32 \(2, 3\)"):
            unpack(pack(other), PARAMS)


def test_damaged_params_are_refused():
    packed = pack(PARAMS)
    for damaged in (b"", packed[:-1], packed + b"x", b"\xff" * 8 + packed[8:], packed.replace(b"F32", b"F99")):
        with pytest.raises(ValueError, match="params are damaged: "):
            unpack(damaged, PARAMS)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (2, 3)])
def test_every_dtype_and_shape_comes_back(dtype, shape):
    leaf = np.ones(shape, jnp.dtype(dtype))
    back = unpack(pack({"leaf": leaf}), {"leaf": leaf})["leaf"]
    assert (back.dtype, back.shape) == (leaf.dtype, leaf.shape)
    np.testing.assert_array_equal(back, leaf)


def test_nothing_newer_costs_no_bytes():
    server = VariableServer("variables")
    assert server.get(-1) == (-1, b"")
    server.put(0, b"zero")
    assert server.get(-1) == (0, b"zero")
    assert server.get(0) == (0, b"")
    server.put(3, b"three")
    assert server.get(0) == (3, b"three")


def test_a_client_keeps_version_and_params_together():
    server = VariableServer("variables")
    client = VariableClient(server, PARAMS)
    assert client.fetch(0.0) is None and client.newest == (-1, None)
    server.put(4, pack(PARAMS))
    assert client.newest == (-1, None)  # Whoever only reads it fetches nothing.
    version, params = client.fetch(0.0)
    assert version == 4 and client.newest == (4, params)
    np.testing.assert_array_equal(params["net/~/linear"]["w"], PARAMS["net/~/linear"]["w"])


class Away(VariableServer):
    """Is away for some calls: its clients give up at their deadline."""

    def __init__(self, calls: int):
        super().__init__("variables")
        self.calls = calls

    def put(self, version, packed):
        self._answer()
        super().put(version, packed)

    def newest(self, have, wait_s):
        self._answer()
        return super().newest(have, wait_s)

    def get(self, have):
        self._answer()
        return super().get(have)

    def _answer(self):
        self.calls -= 1
        if self.calls >= 0:
            raise DeadlineExceeded


def test_a_server_that_is_away_is_waited_for():
    server = Away(calls=2)
    Publisher(server, lambda: False).put(7, PARAMS)
    assert server.get(-1)[0] == 7
    client = VariableClient(server, PARAMS)
    assert client.fetch(0.0)
    server.calls = 1
    assert client.fetch(0.0)[0] == 7


class Hanging(VariableServer):
    """Doesn't answer the second call, and later ones only once it is `back`."""

    def __init__(self):
        super().__init__("variables")
        self.back, self.asked_beside = threading.Event(), threading.Event()
        self.callers: list[int] = []

    def get(self, have):
        self.callers.append(threading.get_ident())
        if len(self.callers) == 2:
            raise DeadlineExceeded
        if len(self.callers) > 2:
            self.asked_beside.set()
            self.back.wait(60.0)
        return super().get(have)


def test_who_has_params_acts_with_them_while_the_server_is_away_and_gets_newer_ones_once_it_is_back():
    server = Hanging()
    server.put(7, pack(PARAMS))
    client = VariableClient(server, PARAMS)
    table = Table("fresh", "queue", sequence_length=5, period=5, size=100, batch_size=4, max_staleness=0)
    bounded = Refresh(table, None, Allowance(table, 4, lambda: 0.0))
    assert bounded.allowed(client.fetch(0.0), 0.0) is not None
    server.put(8, pack(PARAMS))
    for _ in range(100):
        newest = client.fetch(0.0)
        assert newest[0] == 7
        assert bounded.allowed(newest, 0.0) is None  # Whoever needs fresh params still waits for them.
    assert server.asked_beside.wait(DEADLINE_S) and len(server.callers) == 3  # One call at a time waits beside.
    server.back.set()
    end = time.monotonic() + DEADLINE_S
    while client.newest[0] == 7:
        assert client.fetch(0.0) and time.monotonic() < end
    assert bounded.allowed(client.newest, 0.0) is not None
    while server.callers[-1] != threading.get_ident():  # All is as before, once the thread beside has ended.
        assert client.fetch(0.0) and time.monotonic() < end


def test_what_fails_beside_is_raised_where_params_are_fetched():
    server = Away(calls=0)
    server.put(7, pack(PARAMS))
    client = VariableClient(server, PARAMS)
    client.fetch(0.0)
    server.calls = 1
    client.fetch(0.0)
    server.put(8, pack({"other": np.zeros(1)}))
    end = time.monotonic() + DEADLINE_S
    with pytest.raises(ValueError, match="params don't fit the network"):
        while client.fetch(0.0):
            assert time.monotonic() < end


def test_a_learner_that_stops_waits_no_longer():
    server = Away(calls=10**9)
    Publisher(server, lambda: True).put(7, PARAMS)
    assert server.calls == 10**9 - 1


def test_a_server_that_came_back_without_params_gets_the_newest_again():
    server = VariableServer("variables")
    publisher = Publisher(server, lambda: False)
    publisher.put(7, PARAMS)
    client = VariableClient(server, PARAMS)
    client.fetch(0.0)
    server.__init__("variables")
    assert client.fetch(0.0)[0] == 7
    publisher.renew()
    assert server.get(-1)[0] == 7


def test_the_other_servers_hold_what_the_learner_puts_into_the_first():
    first = VariableServer("variables/0")
    other = VariableServer("variables/1", source=(first, first))
    publisher = Publisher(first, lambda: False)
    for version in (7, 3):  # A learner that started again may have a smaller number.
        publisher.put(version, PARAMS)
        other.step()
        client = VariableClient(other, PARAMS)
        assert client.fetch(0.0)[0] == version
    assert first.end_order > other.end_order > Inference.end_order  # Each ends after those that call it.


def test_a_server_that_fetches_keeps_what_it_has_while_the_first_is_away_or_empty_and_is_filled_when_it_comes_back():
    first = Away(calls=0)
    other = VariableServer("variables/1", source=(first, first))
    first.put(7, pack(PARAMS))
    other.step()
    first.calls = 1
    other.step()
    first.__init__(calls=0)
    other.step()
    assert other.get(-1)[0] == 7
    other.__init__("variables/1", source=(first, first))
    first.put(7, b"again")
    other.step()
    assert other.get(-1) == (7, b"again")


def test_a_server_that_fetches_waits_at_the_first_for_newer_params():
    first = VariableServer("variables/0")
    first.put(1, b"one")
    with futures.ThreadPoolExecutor(1) as fetching:
        found = fetching.submit(first.newest, 1, 60.0)
        first.put(2, b"two")
        assert found.result(30.0) == 2
        assert first.newest(2, 0.0) == 2


def test_a_server_whose_params_take_longer_than_a_question_may_is_fetched_from_all_the_same():
    first, slow = VariableServer("variables/0"), Away(calls=1)
    slow.get = lambda have: (slow._answer(), first.get(have))[1]  # A large transfer, which fails once.
    asking = VariableServer("variables/0")
    asking.get = lambda have: pytest.fail("the question must not transfer params")
    asking.put(7, b"seven")
    first.put(7, b"seven")
    other = VariableServer("variables/1", source=(asking, slow))
    other.step()
    assert other.get(-1)[0] == -1 and other.warnings[0].startswith("variables/1 stays behind")
    other.step()
    assert other.get(-1) == (7, b"seven")


def test_a_server_that_has_fetched_nothing_yet_says_what_it_waits_for():
    first = VariableServer("variables/0")
    other = VariableServer("variables/1", source=(first, first))
    other.step()
    first.put(1, b"one")
    other.step()
    spent = other.stopwatch.seconds()[variables.EMPTY]
    other.step()
    assert other.stopwatch.seconds()[variables.EMPTY] == spent


def test_a_learner_and_actors_share_params_through_a_server():
    variables = VariableServer("variables")
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        address = f"unix:{folder}/variables"
        with Server(address, {name: getattr(variables, name) for name in variables.methods}):
            Publisher(Client(address, 60.0), lambda: False).put(7, PARAMS)
            client = VariableClient(Client(address, 60.0), PARAMS)
            version, params = client.fetch(0.0)
            assert version == 7
            np.testing.assert_array_equal(params["net/~/linear"]["w"], PARAMS["net/~/linear"]["w"])


@pytest.mark.cluster
def test_a_launcher_loads_no_tensorflow():
    code = """
import sys
from boonta.programs import central_inference, reanalyze, self_play, unplugged
assert "rlax" in sys.modules and "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)


@pytest.mark.cluster
def test_agents_load_no_tensorflow_probability_unless_it_is_used():
    code = """
import sys
from boonta.agents import dqn, impala, muzero, ppo, r2d2, sac, td3
from boonta.agents.light_rlax import rlax
assert not {"distrax", "tensorflow_probability", "tensorflow"} & set(sys.modules)
import numpy as np
assert rlax.softmax().probs(np.zeros(2)).tolist() == [0.5, 0.5] and "distrax" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)


@pytest.mark.cluster
def test_the_hazard_that_light_rlax_heals_is_still_there():
    late = subprocess.run(
        [sys.executable, "-c", "import reverb, rlax"], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert "ImportError" in late.stderr, "the hazard is gone"
    code = "import reverb; from boonta.agents.light_rlax import rlax; rlax.vtrace"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)
