"""Which nodes there are, where they listen, and what is refused before one runs."""

from __future__ import annotations

import pathlib
import socket

import pytest

pytest.importorskip("launchpad")


from boonta.deploy import core, program
from boonta.nodes.services import Program
from boonta.programs.wiring.run import BadInput

pytestmark = pytest.mark.cluster
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


def test_addresses_of_all_nodes_are_bound_and_a_handle_resolves_to_its_servers_host():
    built = program.build(TINY, [])
    tasks = core.bind(built.program, lambda task: f"run-{task.label}-0-{task.index}.run", 5000)
    ports = {task.label: task.ports for task in tasks}
    assert ports["replay"] == (5002,) and not ports["actor"]
    (actor,) = built.program.groups["actor"]
    assert {handle._address.resolve() for handle in actor.input_handles} == {
        "run-monitor-0-0.run:5000",
        "run-variables-0-0.run:5001",
        "run-replay-0-0.run:5002",
    }


def test_handles_learn_whom_they_connect_before_addresses_are_bound(monkeypatch):
    built = light()
    (variables,) = built.program.groups["variables"]
    seen = []

    def connect(handle, node, label):
        seen.append((label, handle._address._address_builder))

    monkeypatch.setattr(type(variables.input_handles[0]), "connect", connect)
    core.bind(built.program, lambda task: "host")
    assert sorted(seen, key=str) == [("actor", None)] * 6 + [("learner", None)] * 2 + [("variables", None)]


def test_launchpads_stop_asks_the_monitor_rather_than_signal_the_process_that_bound(monkeypatch):
    built, asked = light(), []

    class Client:
        def __init__(self, address, call_timeout):
            self.address = address

        def stop_program(self, reason):
            asked.append((self.address, reason))

    monkeypatch.setattr(core.courier, "Client", Client)
    core.bind(built.program, lambda task: "host", 5000)
    for node in built.program.get_all_nodes():
        node.launch_context.program_stopper(mark_as_completed=True)
    assert asked == [("host:5000", "a node called launchpad.stop()")] * 6


def test_hosts_are_dealt_in_turn_or_named_by_a_pattern():
    tasks = core.plan(light().program)
    dealt = core.host_function("a, b", tasks)
    assert [dealt(task) for task in tasks] == ["a", "b", "a", "b", "a", "b"]
    named = core.host_function("x-{label}-0-{index}.x", tasks)
    assert named(tasks[-1]) == "x-actor-0-2.x"


@pytest.mark.parametrize(
    ("hosts", "said"), [("a,,b", "separated by commas"), ("x-{labl}", "only {label} and {index}"), ("", "must be host")]
)
def test_hosts_that_name_none_are_refused(hosts, said):
    with pytest.raises(BadInput, match=said):
        core.host_function(hosts, core.plan(light().program))


@pytest.mark.parametrize(
    ("label", "index", "said"), [("actr", 0, "is no group of this program"), ("actor", 3, "'actor' has 3 nodes")]
)
def test_nodes_that_there_are_not_are_refused(label, index, said):
    with pytest.raises(BadInput, match=said):
        core.find(core.plan(light().program), label, index)


def test_a_port_that_is_taken_is_named():
    built = light()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        tasks = core.bind(built.program, lambda task: "127.0.0.1", taken.getsockname()[1])
        with pytest.raises(OSError, match=rf"port {taken.getsockname()[1]} for monitor is in use here"):
            core.run(built.program, tasks[0], tasks, "")


def test_a_program_without_a_monitor_is_refused():
    with pytest.raises(BadInput, match="bare has 0 monitors"):
        core.bind(Program("bare"), lambda task: "host")


def test_program_files_that_cannot_be_built_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"nothing.py doesn't exist"):
        program.build(tmp_path / "nothing.py", [])
    other = tmp_path / "other.py"
    other.write_text("def another():\n    pass\n")
    with pytest.raises(BadInput, match=r"no function other\(\)"):
        program.build(other, [])
    other.write_text("from boonta.programs.wiring.launch import RunFlags\n\n\ndef other(run: RunFlags):\n  return 5\n")
    with pytest.raises(BadInput, match="makes a int, not a Launchpad program"):
        program.build(other, [])


def test_a_program_of_threads_has_no_nodes_to_spread():
    with pytest.raises(BadInput, match="makes a program of one process per host: start it there"):
        program.spread(program.ROOT / "programs" / "sebulba_impala_catch.py", [])


def test_flags_after_two_dashes_are_the_programs():
    assert program.split_flags(["a", "--b", "--", "--c", "--"]) == (["a", "--b"], ["--c", "--"])
    assert program.split_flags(["a"]) == (["a"], [])
