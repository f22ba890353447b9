"""A program as a value: what it refuses, what it gives its nodes, and that every way to run reads the same one."""

from __future__ import annotations

import dataclasses
import re

import pytest

from boonta.agents import muzero
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.periodic import Periodic
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.impala import impala
from boonta.programs.wiring import launch
from boonta.programs.wiring.checks import check_limits, check_nodes, check_threads
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.construction import construct, node_arguments
from boonta.programs.wiring.interpreters import sebulba
from boonta.programs.wiring.launch import Program, Run, group
from boonta.programs.wiring.program import parameters
from boonta.programs.wiring.several import dealt
from boonta.programs.wiring.supervision.restarts import Restarts

REANALYZE = dataclasses.replace(muzero.CATCH, reanalyze_ratio=0.8)


def program_of(tmp_path, *groups, config=muzero.CATCH, **run) -> Program:
    env = Catch()
    return Program("c", Run(workdir=str(tmp_path), **run), muzero.make(config, env.spec), env, groups)


def test_a_table_that_nobody_fills_is_refused(tmp_path):
    config = REANALYZE
    with pytest.raises(ValueError, match="the number of actor nodes is 0; it must be at least 1"):
        group(Actor, 0)
    with pytest.raises(ValueError, match="reads table 'trajectories', which actors fill, and the program has none"):
        program_of(tmp_path, group(Learner), config=config)
    with pytest.raises(ValueError, match="reads table 'reanalyzed', which reanalyzers fill, and the program has none"):
        program_of(tmp_path, group(Learner), group(Actor), config=config)
    whole = program_of(tmp_path, group(Learner), group(Actor), group(Reanalyzer), config=config)
    labels = [group.label for group in whole.all_groups]
    assert labels == ["monitor", "variables", "replay", "learner", "actor", "reanalyzer"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tuple, "mine: the agent is a tuple; it must be an agents.base.Agent"),
        (lambda agent: agent._replace(tables=agent.tables[0]), "the agent's tables are Table(name='trajectories', "),
        (lambda agent: None, "mine: the agent is None; does make() return it; it must be an agents.base.Agent"),
        (lambda agent: agent._replace(tables=2 * agent.tables), "named ['trajectories', 'trajectories']; each needs"),
        (lambda agent: agent._replace(policy=len), "the agent's policy is a builtin_function_or_method; it must be "),
        (lambda agent: agent._replace(update=agent.update.step), "the agent's update is a function; it must be an "),
    ],
)
def test_what_is_no_agent_is_refused(tmp_path, change, message):
    agent = muzero.make(muzero.CATCH, Catch().spec)
    with pytest.raises(ValueError, match=re.escape(message)):
        Program("mine", Run(workdir=str(tmp_path)), change(agent), Catch(), [group(Learner)])


class Idle(Node):
    pass


class Nameless(Periodic):
    def __init__(self, monitor=None):
        super().__init__("mine", monitor)


class Unmade(Periodic):
    def __init__(self, name: str):
        self.name = name


class Asking(Periodic):
    def __init__(self, name: str, learner):
        super().__init__(name)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Idle, "idle: Idle has neither a step() nor tasks of its own"),
        (Nameless, "nameless: the first argument of Nameless's constructor must be its name"),
        (Unmade, "unmade: __init__ of Unmade must call super().__init__(name, monitor)"),
        (Asking, "asking: Asking asks for 'learner', which its group doesn't set and nodes aren't given"),
    ],
)
def test_a_class_that_is_no_whole_node_is_refused_before_the_launch(tmp_path, node, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_nodes(program_of(tmp_path, group(node)))


def test_only_groups_of_nodes_make_a_program(tmp_path):
    with pytest.raises(ValueError, match="is given <class 'dict'>; it takes a class derived from boonta.nodes.base"):
        group(dict)
    with pytest.raises(ValueError, match="c: groups has <class .*Idle'>; each must be made by group"):
        program_of(tmp_path, Idle)


def test_each_group_may_have_restarts_of_its_own(tmp_path):
    own = Restarts(number=20, window_s=60.0)
    groups = [group(Learner), group(Actor, 2, restarts=own)]
    program = program_of(tmp_path, *groups)
    assert program.restarts["actor/0"] == program.restarts["actor/1"] == own
    assert program.restarts["learner"] == program.restarts["monitor"] == Restarts()
    assert node_arguments(program, program.all_groups[0], 0, {})["supervised"]


def test_a_group_and_else_the_run_says_when_a_node_hangs(tmp_path):
    groups = [group(Learner), group(Actor, 2, restarts=Restarts(limit_s=7.0))]
    program = program_of(tmp_path, *groups)
    handles = dict.fromkeys(["monitor", "variables", "replay"])
    for run_limit_s, expected in ((None, [7.0, 300.0]), (60.0, [7.0, 60.0])):
        own = dataclasses.replace(program.run, restarts=Restarts(limit_s=run_limit_s))
        changed = dataclasses.replace(program, run=own)
        assert [
            construct(changed, changed.of_role(role), 0, handles).limit_s for role in ("actor", "learner")
        ] == expected


@pytest.mark.parametrize("run", [{"restarts": Restarts(number=0)}, {"launch": "local_mt"}])
def test_without_restarts_no_group_has_any(tmp_path, run):
    program = program_of(tmp_path, group(Learner), group(Actor, 2, restarts=Restarts(number=20)))
    program = dataclasses.replace(program, run=Run(workdir=str(tmp_path), **run))
    assert program.restarts == {}
    assert not node_arguments(program, program.all_groups[0], 0, {})["supervised"]


def test_actors_have_seeds_of_their_own(tmp_path):
    def seeds(seed):
        program = program_of(tmp_path, group(Learner), group(Actor, 8), seed=seed)
        return [node_arguments(program, program.groups[1], i, {})["seed"] for i in range(8)]

    fresh = seeds(0)
    assert len({*fresh, *seeds(1)}) == 16 and seeds(0) == fresh
    (tmp_path / "checkpoints" / "90").mkdir(parents=True)
    (tmp_path / "checkpoints" / "100").mkdir()
    resumed = seeds(0)
    assert len({*fresh, *resumed}) == 16 and seeds(0) == resumed
    (tmp_path / "checkpoints" / "110.orbax-checkpoint-tmp").mkdir()  # It is not whole yet.
    assert seeds(0) == resumed
    (tmp_path / "checkpoints" / "110").mkdir()
    assert not {*seeds(0)} & {*fresh, *resumed}


def test_an_odd_number_of_environments_is_stepped_by_one_thread():
    assert group(Actor, num_envs=7).settings == {"num_envs": 7, "threads": 1}
    assert group(Actor, num_envs=8).settings == {"num_envs": 8}
    assert group(Actor, num_envs=9, threads=3).settings == {"num_envs": 9, "threads": 3}
    assert group(Reanalyzer, num_envs=7).settings == {"num_envs": 7}  # It has one anyway.


def test_reanalyzers_with_no_replay_table_to_read_are_refused(tmp_path):
    program = program_of(tmp_path, group(Learner), group(Actor), group(Reanalyzer))
    with pytest.raises(ValueError, match="reanalyzers need a replay table to read and one to write to"):
        check_nodes(program)


def test_callers_are_dealt_to_the_nodes_that_serve():
    served = {"inference": ["first", "second"], "variables": ["only"]}
    assert [dealt(served, i)["inference"] for i in range(3)] == ["first", "second", "first"]
    assert [dealt(served, i)["variables"] for i in range(2)] == ["only", "only"]


def test_a_server_of_which_there_can_be_one_is_refused_in_numbers(tmp_path):
    program = program_of(tmp_path, group(Monitor, 2), group(Learner), group(Actor))
    with pytest.raises(ValueError, match="the number of monitor nodes is 2; it must be 1"):
        check_nodes(program)


class Board(VariableServer):
    """A variable server of a user's own that fetches from no other."""

    def __init__(self, name, monitor):
        super().__init__(name, monitor)


def test_a_program_has_as_many_variable_servers_as_the_run_asks_for_or_it_names_itself(tmp_path):
    for own, run in (([], {"variable_servers": 2}), ([group(VariableServer, 2)], {})):
        program = program_of(tmp_path, *own, group(Learner), group(Actor), **run)
        check_nodes(program)
        (found,) = (each for each in program.all_groups if each.node is VariableServer)
        assert found.names == ("variables/0", "variables/1")


@pytest.mark.parametrize(
    ("own", "run", "message"),
    [
        ([group(VariableServer)], {"variable_servers": 2}, "variable_servers is 2, and the program itself names 1"),
        ([group(Board, 2)], {}, "variables: Board takes no `source`, and so can't be one of 2 variable servers"),
        (
            [group(VariableServer, 2)],
            {"launch": "serial"},
            "has 2 variable servers; with --launch serial it can have one",
        ),
    ],
)
def test_variable_servers_that_can_not_be_several_are_refused(tmp_path, own, run, message):
    with pytest.raises(ValueError, match=message):
        check_nodes(program_of(tmp_path, *own, group(Learner), group(Actor), **run))


@pytest.mark.parametrize("launch", ["serial", "sebulba", "anakin"])
def test_ways_to_run_with_one_variable_server_refuse_more(launch):
    with pytest.raises(ValueError, match=f"variable_servers is 2; with --launch {launch} it must be 1: leave it out"):
        Run(launch=launch, variable_servers=2)


def test_a_setting_that_a_node_does_not_know_is_refused(tmp_path):
    program = program_of(tmp_path, group(Learner), group(Actor, num_env=3))
    with pytest.raises(ValueError, match="actor: Actor takes no setting 'num_env'; it takes .*'num_envs'"):
        check_nodes(program)


@dataclasses.dataclass(frozen=True)
class Drawn(Catch):
    """Only one thread may step it."""

    one_thread = True


def test_an_environment_for_one_thread_is_refused_where_actors_have_several(tmp_path):
    def made(actor, env=Drawn(), **run):  # noqa: B008
        return dataclasses.replace(program_of(tmp_path, group(Learner), actor, **run), env=env)

    message = "actor: one thread must make all steps of .* actor has 2: .* --env.workers 1 or more"
    for program in made(group(Actor)), made(group(Actor, env=Drawn()), Catch()), made(group(Actor), launch="local_mt"):
        with pytest.raises(ValueError, match=f"{message}$"):
            check_nodes(program)
    with pytest.raises(ValueError, match=f"{message}, or --placement.threads 1$"):
        sebulba.prepare(made(group(Actor), launch="sebulba"))
    check_nodes(made(group(Actor), launch="serial"))
    check_nodes(made(group(Actor, num_envs=1)))
    check_threads(made(group(Actor), launch="sebulba", placement=Placement(threads=1)))


class Loud(Actor):
    """Passes everything on but one setting of its own."""

    def __init__(self, *handles, volume: int, **settings):
        super().__init__(*handles, **settings)
        self.volume = volume


def test_a_nodes_parameters_include_those_that_it_passes_on():
    assert {"volume", "agent", "num_envs", "seed"} <= parameters(Loud).keys()


def test_a_program_may_name_its_own_service(tmp_path):
    program = program_of(tmp_path, group(Monitor, log_every_s=1.0), group(Learner), group(Actor))
    assert program.all_groups[0].settings == {"log_every_s": 1.0}
    assert [group.label for group in program.all_groups].count("monitor") == 1


def test_all_five_ways_to_run_read_the_same_value(tmp_path, monkeypatch):
    """The program is the same but for `run.launch`; each interpreter takes it."""
    read = {}
    for way in launch.INTERPRETERS:
        run, settings = parse(impala, ["catch", "--launch", way, "--workdir", str(tmp_path)])
        program = impala(run, **settings)
        alike = dataclasses.replace(run, launch="serial")
        read[way] = (program.name, program.env, program.groups, program.agent.tables, alike)
        try:
            start = launch.prepare(program)
        except ImportError as error:  # Only the cluster's packages may be missing, and only where they can't be had.
            assert "need dm-launchpad" in str(error) and way in ("local_mp", "local_mt", "serial")
        else:
            assert callable(start)
    assert len(read) == 5 and all(value == read["anakin"] for value in read.values())


@pytest.mark.parametrize("limit", ["eval_return", "patience"])
def test_a_limit_on_evaluations_that_nobody_makes_is_refused(tmp_path, limit):
    refusal = f"stop.{limit} is 5; no evaluator is there to measure it: leave it out"
    for way in launch.INTERPRETERS:
        program = program_of(tmp_path, group(Learner), group(Actor), stop=StopRule(**{limit: 5}), launch=way)
        with pytest.raises(ValueError, match=refusal):
            launch.require(program)
    with pytest.raises(ValueError, match=refusal):
        sebulba.build(dataclasses.replace(program, run=dataclasses.replace(program.run, launch="sebulba")))


def test_a_limit_on_env_steps_is_kept_where_a_node_of_any_own_kind_may_count_them(tmp_path):
    program = program_of(tmp_path, group(Learner), group(Actor), stop=StopRule(env_steps=5))
    check_limits(program)
    check_limits(dataclasses.replace(program, agent=None, groups=[group(Idle)]))
    with pytest.raises(ValueError, match="stop.env_steps is 5; no actor is there to count env steps: leave it out"):
        check_limits(dataclasses.replace(program, agent=None, groups=[group(Monitor)]))
