"""The plan of nodes, their addresses, and refusals before a node runs."""

from __future__ import annotations

import pathlib
import socket
import threading

import pytest

from boonta.deploy import core, program
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.pulse import MONITOR_DEADLINE_S
from boonta.nodes.watch.stopwatch import before_nodes
from boonta.programs.wiring.command_line.arguments import split_flags
from boonta.programs.wiring.joining import with_joined
from boonta.programs.wiring.launch import group
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder.provenance import ROOT

LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"
TINY = LIGHT.parent / "tiny_program.py"


def light(*flags: str):
    return program.build(LIGHT, ["--actors", "3", *flags])


def test_the_plan_names_every_node_and_no_two_share_a_port():
    tasks = core.plan(light().program, 5000)
    assert [(task.label, task.index, task.name) for task in tasks] == [
        ("monitor", 0, "monitor"),
        ("variables", 0, "variables"),
        ("learner", 0, "learner"),
        *(("actor", i, f"actor/{i}") for i in range(3)),
    ]
    assert [task.ports for task in tasks] == [(5000,), (5001,), (), (), (), ()]
    assert [task.is_dispensable for task in tasks] == [False, False, False, True, True, True]


@pytest.mark.cluster
def test_addresses_of_all_nodes_are_bound_and_a_handle_resolves_to_its_servers_host():
    from boonta.programs.wiring.interpreters import alone

    built = program.build(TINY, [])
    tasks = core.plan(built.program, 5000)
    addresses = core.addresses_of({task: f"run-{task.label}-0-{task.index}.run" for task in tasks})
    launchable = core.bind(built.program, addresses, "rpc.pem")
    ports = {task.label: task.ports for task in tasks}
    assert ports["replay"] == (5002,) and not ports["actor"]
    assert set(alone.servers_of(launchable, "actor/0")) == {
        "run-monitor-0-0.run:5000",
        "run-variables-0-0.run:5001",
        "run-replay-0-0.run:5002",
    }


@pytest.mark.cluster
def test_of_nodes_that_nobody_calls_only_the_own_one_is_made():
    from boonta.programs.wiring.interpreters import alone

    larger = with_joined(program.build(TINY, []).program, "actor", 7)
    addresses = core.addresses_of({task: task.label for task in core.plan(larger, 5000)})
    launchable = core.bind(larger, addresses, "rpc.pem", only="actor/7")
    assert list(launchable.nodes) == ["monitor", "variables", "replay", "actor/7"]
    assert alone.servers_of(launchable, "actor/7") == ["monitor:5000", "replay:5002", "variables:5001"]


@pytest.mark.cluster
def test_handles_learn_whom_they_connect_before_addresses_are_bound(monkeypatch):
    from boonta.programs.wiring.interpreters import launchpad

    built, seen = light(), []
    variables = launchpad.to_launchpad(built.program).nodes["variables"]

    def connect(handle, node, label):
        seen.append((label, handle._address._address_builder))

    monkeypatch.setattr(type(variables.input_handles[0]), "connect", connect)
    core.bind(built.program, core.addresses_of({task: "host" for task in core.plan(built.program)}), "rpc.pem")
    assert sorted(seen, key=str) == [("actor", None)] * 6 + [("learner", None)] * 2 + [("variables", None)]


@pytest.mark.cluster
def test_launchpads_stop_asks_the_monitor_rather_than_signal_the_process_that_bound(monkeypatch):
    from boonta.programs.wiring.interpreters import alone

    built, asked = light(), []

    class Client:
        def __init__(self, address, deadline_s, key):
            self.address = address, key

        def stop_program(self, reason):
            asked.append((*self.address, reason))

    monkeypatch.setattr(alone, "Client", Client)
    addresses = core.addresses_of({task: "host" for task in core.plan(built.program, 5000)})
    launchable = core.bind(built.program, addresses, "rpc.pem")
    for node in launchable.program.get_all_nodes():
        node.launch_context.program_stopper(mark_as_completed=True)
    assert asked == [("host:5000", "rpc.pem", "a node called launchpad.stop()")] * 6


def test_hosts_are_dealt_in_turn_or_named_by_a_pattern():
    tasks = core.plan(light().program)
    dealt = core.hosts_of("a, b", tasks)
    assert [dealt[task] for task in tasks] == ["a", "b", "a", "b", "a", "b"]
    named = core.hosts_of("x-{label}-0-{index}.x", tasks)
    assert named[tasks[-1]] == "x-actor-0-2.x"


@pytest.mark.parametrize(
    ("hosts", "message"),
    [("a,,b", "separated by commas"), ("x-{labl}", "only {label} and {index}"), ("", "must be host")],
)
def test_hosts_that_name_none_are_refused(hosts, message):
    with pytest.raises(BadInput, match=message):
        core.hosts_of(hosts, core.plan(light().program))


@pytest.mark.parametrize(
    ("label", "index", "message"),
    [
        ("actr", 0, "is no group of this program"),
        ("actor", -1, "'actor' has 3 nodes"),
        ("learner", 1, "'learner' has 1 nodes"),
    ],
)
def test_nodes_that_there_are_not_are_refused(label, index, message):
    with pytest.raises(BadInput, match=message):
        core.find(core.plan(light().program), label, index)


def test_an_actor_beyond_those_of_the_program_joins_it():
    tasks = core.plan(light().program)
    assert not core.find(tasks, "actor", 2).joined
    task = core.find(tasks, "actor", 5)
    assert (task.name, task.joined, task.is_dispensable, task.ports) == ("actor/5", True, True, ())


@pytest.mark.cluster
def test_a_port_that_is_taken_is_named():
    built = light()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        tasks = core.plan(built.program, port)
        launchable = core.bind(built.program, core.addresses_of({task: "127.0.0.1" for task in tasks}), "rpc.pem")
        with pytest.raises(OSError, match=rf"port {port} for monitor is in use here"):
            core.run(launchable, tasks[0], tasks, "", 1.0, None)


@pytest.mark.cluster
def test_waiting_for_servers_is_a_phase_of_the_start(monkeypatch):
    """It comes before the node is made, whose own stopwatch would count it as importing."""
    activities: list[str] = []

    def wait(*given: object) -> None:
        activities.append(before_nodes.longest()[0])
        raise OSError("out of reach")

    monkeypatch.setattr(core, "_await_servers", wait)
    tasks = core.plan(light().program)
    launchable = core.bind(light().program, core.addresses_of({task: "host" for task in tasks}), "rpc.pem")
    with pytest.raises(OSError, match="out of reach"):
        core.run(launchable, tasks[2], tasks, "", 1.0, None)
    assert activities == ["connecting"]


@pytest.mark.cluster
@pytest.mark.parametrize(("starts_again", "away_s"), [(True, core.REACH_S), (False, MONITOR_DEADLINE_S)])
def test_a_monitor_that_is_started_again_is_waited_for_as_long_as_hosts_that_start(monkeypatch, starts_again, away_s):
    from boonta.programs.wiring.interpreters import alone

    node = Node("learner")
    lone = alone.Lone(node, lambda: None, threading.Event())
    monkeypatch.setattr(alone, "lone", lambda launchable, name: lone)
    monkeypatch.setattr(core, "_await_servers", lambda *given: None)
    monkeypatch.setattr(core.interrupts, "handle", lambda handler: None)
    tasks = core.plan(light().program)
    launchable = core.bind(light().program, core.addresses_of({task: "host" for task in tasks}), "rpc.pem")
    assert core.run(launchable, tasks[2], tasks, "", 1.0, None, starts_again) == 0
    assert node.monitor_away_s == away_s and node.apart


def bare(*groups) -> Program:
    return Program("bare", Run(), None, None, groups)


def test_a_program_that_names_no_monitor_has_one_all_the_same():
    assert [task.name for task in core.plan(bare())] == ["monitor"]


def test_a_program_of_two_monitors_is_refused_and_so_is_one_of_another_name():
    with pytest.raises(BadInput, match=r"bare has monitors \['.*other.*'\]; it needs one"):
        core.plan(bare(group(Monitor), group(Monitor, label="other")))
    with pytest.raises(BadInput, match=r"bare has monitors \['other'\]; it needs one, called 'monitor'"):
        core.plan(bare(group(Monitor, label="other")))


@pytest.mark.cluster
def test_only_spread_over_hosts_the_monitor_waits_for_them_as_long_as_they_may_take():
    own = bare(group(Monitor, log_every_s=0.5))
    (monitor,) = core.patient(own).all_groups
    assert monitor.settings == {"log_every_s": 0.5, **core.PATIENCE}
    assert own.groups[0].settings == {"log_every_s": 0.5}
    node = core.bind(own, core.addresses_of({task: "host" for task in core.plan(own)}), "rpc.pem").nodes["monitor"]
    arguments = node._args[-1]
    assert arguments["lost_s"] == core.PATIENCE["lost_s"]
    assert arguments["supervised"] is False


def test_program_files_that_cannot_be_built_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"nothing.py doesn't exist"):
        program.build(tmp_path / "nothing.py", [])
    other = tmp_path / "other.py"
    other.write_text("def another():\n    pass\n")
    with pytest.raises(BadInput, match=r"must have a function other\(\)"):
        program.build(other, [])
    other.write_text("from boonta.programs.wiring.launch import RunFlags\n\n\ndef other(run: RunFlags):\n  return 5\n")
    with pytest.raises(BadInput, match="makes a int, not a Program"):
        program.build(other, [])


@pytest.mark.parametrize("given", [["--data", "runs/old"], ["--data=runs/old"], ["--start-from", "runs/old"]])
def test_paths_that_depend_on_the_folder_are_refused(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=f"--(data|start-from) is 'runs/old'; .* from here {tmp_path}/runs/old"):
        program.build(ROOT / "programs" / "unplugged.py", given)


def test_a_program_of_threads_has_no_nodes_to_spread():
    for launch in ("sebulba", "anakin"):
        with pytest.raises(BadInput, match=f"--launch {launch} makes one process per host: start it there"):
            program.spread(ROOT / "programs" / "impala.py", ["catch", "--launch", launch])


@pytest.mark.parametrize("launch", ["local_mt", "serial"])
def test_ways_to_run_on_one_machine_are_refused(launch):
    with pytest.raises(BadInput, match=f"--launch {launch} is for one machine.* or choose one of sebulba, anakin"):
        program.build(LIGHT, ["--launch", launch])


def test_flags_after_two_dashes_are_the_programs():
    assert split_flags(["a", "--b", "--", "--c", "--"]) == (["a", "--b"], ["--c", "--"])
    assert split_flags(["a"]) == (["a"], [])
