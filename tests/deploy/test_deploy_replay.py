"""Replay servers of a program over hosts: their ports, and the tunnels that lead to them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from boonta.deploy import core, program
from boonta.nodes.rpc import wire
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers.apart import free_ports
from boonta.tests.helpers.deadline import DEADLINE_S

DQN = ROOT / "programs" / "dqn.py"


@pytest.mark.cluster
def test_behind_a_tunnel_only_its_exit_listens_already(monkeypatch):
    """At the port of the node with the tables; all others are looked at."""
    from boonta.deploy import tunnelled

    def wait(*given: object) -> None:
        raise OSError("out of reach")

    monkeypatch.setattr(core, "_await_servers", wait)
    built = program.build(DQN, ["catch"])
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        for name, message in (("monitor", rf"port {port} for monitor is in use here"), ("replay", "out of reach")):
            at = next(i for i, task in enumerate(core.plan(built.program)) if task.name == name)
            tasks = core.plan(built.program, port - core.plan(built.program, 0)[at].ports[0])
            launchable = core.bind(built.program, core.addresses_of({task: "127.0.0.1" for task in tasks}), "rpc.pem")
            assert tasks[at].ports == (port,)
            with pytest.raises(OSError, match=message):
                core.run(launchable, tasks[at], tasks, "", 1.0, tunnelled.Route(tasks[at], tasks, "rpc.pem"))


@pytest.mark.cluster
def test_each_of_several_replay_servers_has_a_port_and_an_actor_reaches_all():
    from boonta.programs.wiring.interpreters import alone

    built = program.build(DQN, ["catch", "--replay-servers", "2"])
    tasks = core.plan(built.program, 5000)
    replays = [(task.name, task.ports) for task in tasks if task.label == "replay"]
    assert replays == [("replay/0", (5002,)), ("replay/1", (5003,))]
    addresses = core.addresses_of({task: f"{task.label}-{task.index}" for task in tasks})
    launchable = core.bind(built.program, addresses, "rpc.pem")
    for name in ("actor/0", "learner"):
        assert {"replay-0:5002", "replay-1:5003"} < set(alone.servers_of(launchable, name))


def test_a_tunnel_leads_to_each_of_several_replay_servers(monkeypatch):
    from boonta.deploy import tunnelled

    tasks = core.plan(program.build(DQN, ["catch", "--replay-servers", "2"]).program, 5000)
    (actor,) = (task for task in tasks if task.name == "actor/0")
    addresses = {task.name: f"{task.label}-{task.index}:{port}" for task in tasks for port in task.ports}
    entrances = {}
    monkeypatch.setattr(tunnelled.tunnel, "open_entrance", lambda path, to, key: entrances.update({f"unix:{path}": to}))
    with contextlib.closing(tunnelled.Route(actor, tasks, "rpc.pem")) as route:
        seen = route.open(addresses)
        assert [entrances[seen[f"replay/{i}"]] for i in range(2)] == ["replay-0:5002", "replay-1:5003"]
        assert route.beyond([seen["monitor"], seen["replay/1"]]) == ["monitor-0:5000", "replay-1:5003"]
        assert {name for name in seen if seen[name] != addresses[name]} == {"replay/0", "replay/1"}


@pytest.mark.cluster
def test_a_replay_server_keeps_the_library_though_its_group_has_others(monkeypatch):
    from boonta.deploy import node

    monkeypatch.setattr(os, "environ", {"LD_PRELOAD": "mine.so", core.ENTERED: "{}"})
    monkeypatch.setattr(os, "execv", lambda *command: None)
    node._enter({"LD_PRELOAD": "mine.so"}, [], {"LD_PRELOAD": "library.so mine.so"})
    assert os.environ["LD_PRELOAD"] == "library.so mine.so"
    assert os.environ[core.ENTERED] == core.entered({"LD_PRELOAD": "mine.so"})  # It enters once.


@pytest.mark.parametrize("end", ["ending.end_now(2)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_node_that_is_refused_or_ended_before_it_runs_leaves_no_tunnel_behind(tmp_path, end):
    code = (
        "from boonta.deploy import ends_early\nimport os, signal\n"
        "from boonta.deploy import core, tunnelled\nfrom boonta.nodes.watch import ending\n"
        "tunnelled.tunnel.open_entrance = lambda path, to, key: None\n"
        "task = core.Task('actor', 0, 'actor/0', (5000,), 'actor')\n"
        "tunnelled.Route(task, [task], 'rpc.pem').open({'replay': 'host:1'})\n"
        f"print(len(os.listdir(os.environ['TMPDIR'])), flush=True)\n{end}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout == "1\n" and done.returncode == (2 if "end_now" in end else 128 + signal.SIGTERM)
    assert not list(tmp_path.iterdir())


def test_replay_servers_on_one_host_listen_apart_behind_their_tunnels(monkeypatch):
    from boonta.deploy import tunnelled

    tasks = core.plan(program.build(DQN, ["catch", "--replay-servers", "2"]).program, 5000)
    addresses = {task.name: f"host:{port}" for task in tasks for port in task.ports}
    exits = []
    monkeypatch.setattr(tunnelled.tunnel, "open_exit", lambda listening, port, key: exits.append(port))
    for task in tasks:
        if tunnelled.keeps_tables(task.name):
            monkeypatch.setenv(tunnelled.EXIT, str(socket.socket().detach()))
            seen = tunnelled.Route(task, tasks, "rpc.pem").open(addresses)
            assert seen[task.name] == f"localhost:{exits[-1]}"
    assert len(set(exits)) == 2 and not set(exits) & {port for task in tasks for port in task.ports}


def test_the_exit_of_a_tunnel_listens_where_other_servers_do(monkeypatch):
    from boonta.deploy import tunnelled

    monkeypatch.setattr(tunnelled.network, "library", lambda: "library.so")
    monkeypatch.delenv(tunnelled.EXIT, raising=False)
    tasks = core.plan(program.build(DQN, ["catch"]).program, free_ports(6))
    (task,) = (task for task in tasks if task.label == "replay")
    with socket.socket(fileno=int(tunnelled.confined(task)[tunnelled.EXIT])) as listening:
        with contextlib.closing(wire.listen(":0")) as other:
            assert listening.family == other.family
        with pytest.raises(OSError, match=f"port {task.ports[0]} for replay is in use here; choose another"):
            tunnelled.confined(task)


def test_a_replay_server_that_can_not_be_kept_to_the_loopback_device_is_refused(tmp_path, monkeypatch):
    from boonta.deploy import tunnelled

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    monkeypatch.delenv(tunnelled.EXIT, raising=False)
    (task,) = (task for task in core.plan(program.build(DQN, ["catch"]).program) if task.label == "replay")
    with pytest.raises(
        BadInput, match=r"the replay server can't be kept .*my cache.*XDG_CACHE_HOME\. Mend that on its"
    ):
        tunnelled.confined(task)


def test_replay_servers_that_can_not_share_the_tables_are_refused():
    with pytest.raises(ValueError, match="batch_size is 64; it must divide over 3 replay servers"):
        program.spread(DQN, ["catch", "--replay-servers", "3"])
