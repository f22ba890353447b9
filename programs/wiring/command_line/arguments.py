"""The command line of a program, made from its function's own signature."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import pathlib
import sys
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Annotated, Any

import tyro

from boonta.agents.config import leaves
from boonta.envs.base import Env
from boonta.programs.wiring import environments
from boonta.programs.wiring.command_line import help
from boonta.programs.wiring.command_line.booleans import spelled_out
from boonta.programs.wiring.command_line.integers import INTEGERS
from boonta.programs.wiring.command_line.kinds import presets_in, presets_with_kinds, with_kinds
from boonta.programs.wiring.command_line.loading import load
from boonta.programs.wiring.command_line.usual import refuse_usual
from boonta.programs.wiring.construction import seeds_of
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.picture import picture_of
from boonta.programs.wiring.program import Program, ProgramFunction
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder.config_file import Origin, agent_of, without_secrets
from boonta.programs.wiring.run_folder.naming import folder_name
from boonta.programs.wiring.run_folder.provenance import from_root, provenance_of
from boonta.programs.wiring.shipped import FOLDER

RunFlags = Annotated[Run, tyro.conf.arg(name="")]  # The flag is --workdir, not --run.workdir.
PaceFlags = Annotated[Pace, tyro.conf.arg(name="")]


def parse(function: ProgramFunction, arguments: Sequence[str] | None = None) -> tuple[Run, dict[str, Any]]:
    """The run and the program function's other arguments, from the command line.

    A function with an argument `env` takes an environment's name first, and its settings as `--env.…`. An argument
    whose class has a method `preset`, as agents' configs do, starts from the preset of that environment's kind, and
    any other dataclass from its own defaults, unless the function has a default for it.

    Args:
      function: `(run, **settings) -> program`.
      arguments: the command line's arguments; None takes the process's own.

    Raises:
      BadInput: the environment doesn't exist, or the function has an argument of a name that is taken.
      ValueError: the environment refuses its settings.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    signature = inspect.signature(function)
    _require_free(function, signature)
    hints = inspect.get_annotations(function, eval_str=True)
    env: Env | None = None
    usual_env: Any = None  # The environment with its default settings.
    env_name = ""
    if hints.get("env") is Env:
        env = usual_env = signature.parameters["env"].default
        if given and not given[0].startswith("-"):
            env = environments.make_env(given[0], given[1:])
            usual_env = environments.usual(given[0], env)
            env_name = given.pop(0)
    parameters = [_parameter(parameter, hints[name], env) for name, parameter in signature.parameters.items()]

    def collect(**chosen: Any) -> dict[str, Any]:
        return chosen

    flagged = [parameter for parameter in parameters if parameter is not None]
    refuse_usual(given, flagged, "" if env is None else pathlib.Path(inspect.getfile(function)).name)
    starts = [
        each.replace(
            default=with_kinds(each.default, each.name, given),
            annotation=presets_with_kinds(each.annotation, each.name, given),
        )
        for each in flagged
    ]
    shown = [help.short(parameter) for parameter in starts] if help.asked(given) else starts
    collect.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    collect.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    collect.__doc__ = _description(function, env)
    usage = pathlib.Path(inspect.getfile(function)).name + (" [ENV]" if env is not None else "")
    try:
        hints_by_flag = {"" if each.name == "run" else each.name: each.annotation for each in shown}
        words = [help.HELP[0] if word == help.ALL else word for word in spelled_out(given, hints_by_flag)]
        settings = tyro.cli(collect, prog=usage, args=words, registry=INTEGERS)
    finally:
        if help.asked(given):  # Tyro has shown its page, and exits.
            print(help.folded(function, flagged))
    if env is not None:
        chosen = settings.pop("env", None)
        settings["env"] = env if chosen is None else environments.with_settings(env, chosen)
    run = settings.pop("run")
    usual = {each.name: each.default for each in flagged if each.default is not each.empty and each.name != "run"}
    presets = _presets_named(hints, given)
    usual |= {name: preset for name, (_, preset) in presets.items()}
    words = _words(function, settings, env_name if ":" in env_name else "") + [name for name, _ in presets.values()]
    return _absolute(run, settings, usual | ({} if env is None else {"env": usual_env}), words), settings


def run_of(function: ProgramFunction, arguments: Sequence[str]) -> Run | None:
    """The run that a command line asks for, without the rest of the line; None if it can't be known yet."""
    default = inspect.signature(function).parameters["run"].default
    default = Run() if default is inspect.Parameter.empty else default
    silence = io.StringIO()
    try:
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            run, _ = tyro.cli(Run, args=list(arguments), default=default, return_unknown_args=True, registry=INTEGERS)
    except (SystemExit, ValueError):  # Help is asked for, or a flag is wrong, which `parse` reports.
        return None
    return run


def _require_free(function: ProgramFunction, signature: inspect.Signature) -> None:
    """Refuses a function with an argument whose flag would be one that every run has."""
    if taken := [each.name for each in dataclasses.fields(Run) if each.name in signature.parameters]:
        raise BadInput(
            f"{function.__name__} takes {', '.join(taken)}, of which every run has a flag of its own: give "
            "the argument another name"
        )


def _parameter(parameter: inspect.Parameter, hint: Any, env: Env | None) -> inspect.Parameter | None:
    """A function's parameter as tyro gets it; None for an environment without settings."""
    default = parameter.default
    if hint is Env:
        default = None if env is None else environments.settings_class(env)
        hint = type(default)
        if default is None:
            return None
    elif default is parameter.empty and hasattr(hint, "preset"):
        default = hint.preset("default" if env is None else environments.kind_of(env))
    elif default is parameter.empty and _needs_nothing(hint):
        default = hint()  # The folder's name has what is changed of it.
    return inspect.Parameter(parameter.name, parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _needs_nothing(hint: Any) -> bool:
    """Whether a class is a dataclass whose fields all have defaults."""
    if not dataclasses.is_dataclass(hint):
        return False
    missing = dataclasses.MISSING
    return all(each.default is not missing or each.default_factory is not missing for each in dataclasses.fields(hint))


def _description(function: ProgramFunction, env: Env | None) -> str:
    text = inspect.getdoc(function) or ""
    if env is None:
        return text
    first, _, rest = text.partition("\n")
    examples = ", ".join(environments.EXAMPLES)
    return f"{first}\n\nENV is the environment: {examples}, or package.module:name.\n{rest}"


def _absolute(run: Run, settings: dict[str, Any], usual: dict[str, Any], words: Sequence[str]) -> Run:
    """The run with absolute folders, which stay valid wherever the run is resumed or inspected."""
    texts = [name for name, value in settings.items() if isinstance(value, str | pathlib.Path)]
    for name in texts:
        if isinstance(settings[name], pathlib.Path):
            settings[name] = str(settings[name].expanduser().absolute())
    named = {name: value for name, value in settings.items() if name not in texts}  # Texts are among the words.
    folder = run.workdir or pathlib.Path("runs") / folder_name(words, run.seed, named, usual)
    start_from = run.start_from and str(pathlib.Path(run.start_from).expanduser().absolute())
    return dataclasses.replace(run, workdir=str(pathlib.Path(folder).expanduser().absolute()), start_from=start_from)


def _words(function: ProgramFunction, settings: dict[str, Any], env_name: str) -> list[str]:
    """The first parts of a run's default folder name.

    These are the program, the agent where the file isn't ours and so may have another at any time, the environment by
    `env_name` or else by its class, and the last part of each path.
    """
    env = [env_name or environments.name_of(settings["env"])] if hasattr(settings.get("env"), "spec") else []
    ours = pathlib.Path(inspect.getfile(function)).resolve().is_relative_to(FOLDER)
    agent = agent_of(settings)
    return [
        name_of(function),
        "" if ours or agent == function.__module__ else agent.rpartition(".")[2],
        *env,
        *(pathlib.PurePath(value).name for value in settings.values() if isinstance(value, str | pathlib.PurePath)),
    ]


def _presets_named(hints: Mapping[str, Any], given: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """By parameter, the name and the value of each preset that the command line has as PARAMETER:NAME."""
    return {
        parameter: (mark.name, mark.default)
        for parameter, hint in hints.items()
        for mark in presets_in(hint)
        if f"{parameter}:{mark.name}" in given
    }


def presets_of(settings: dict[str, Any], launch: str) -> str:
    """Lines for the user: the environment, the values that its presets change, and when the program evaluates."""
    env: Any = settings.get("env")
    if not hasattr(env, "spec"):
        return ""
    lines = [f"environment {environments.name_of(env)}, presets for {environments.kind_of(env)!r}:"]
    for name, value in settings.items():
        if isinstance(value, Evaluation):
            lines.append(f"  {name}: {value.described(launch == 'anakin')}")
        elif hasattr(value, "preset"):
            usual = leaves(type(value)())
            chosen = {field: one for field, one in leaves(value).items() if one != usual[field]}
            lines.append(f"  {name}: " + (", ".join(f"{field} {one}" for field, one in chosen.items()) or "as usual"))
    return "\n".join(lines)


def network_of(program: Program) -> str:
    """A line for the user: the network, if it isn't the config's."""
    own = _own_network(program)
    shown = own.removeprefix("__main__:").partition(".<locals>")[0]
    return f"network {shown}, in the place of the config's" if own else ""


def _own_network(program: Program) -> str:
    return program.agent.network if program.agent else ""


def name_of(function: ProgramFunction) -> str:
    """The function's name, preceded by its file's name if the file holds several programs."""
    file, name = pathlib.Path(inspect.getfile(function)).stem, function.__name__
    return name if name.startswith(file) else f"{file}_{name}"


def origin_of(function: ProgramFunction, arguments: Sequence[str] | None, program: Program) -> Origin:
    """Where a run comes from, for its folder.

    Args:
      function: the program function.
      arguments: the command line's arguments; None takes the process's own.
      program: what the function has made of them.
    """
    file = pathlib.Path(inspect.getfile(function))
    network, env = _own_network(program), environments.name_of(program.env)
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = words[0] if words and not words[0].startswith("-") else ""
    module = environments.module_of(program.env, named)
    provenance = provenance_of(file, env, seeds_of(program), network, module)
    made = provenance, picture_of(program), program.inner
    return Origin(str(from_root(file)), function.__name__, tuple(without_secrets(words)), *made)


def function_of(file: pathlib.Path) -> ProgramFunction:
    """The program function of a file: the one of the file's name, or the only one that says it returns a `Program`.

    Raises:
      BadInput: the file doesn't exist, or which function is meant isn't clear.
    """
    module = load(file)
    named = getattr(module, file.stem, None)
    if callable(named):
        return named
    functions = [value for value in vars(module).values() if inspect.isfunction(value)]
    programs = [each for each in functions if each.__module__ == module.__name__ and _makes_program(each)]
    if len(programs) != 1:
        found = ", ".join(each.__name__ for each in programs) or "none"
        raise BadInput(
            f"program file {file} must have a function {file.stem}(), or only one annotated to return a Program; "
            f"it has {found}"
        )
    return programs[0]


def _makes_program(function: FunctionType) -> bool:
    """Whether a function is annotated so. Its other annotations may name what only a type checker imports."""
    made = function.__annotations__.get("return")
    return made is Program or (isinstance(made, str) and made.rpartition(".")[2] == Program.__name__)


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command's own arguments, and those after `--`, which are the program's."""
    own = list(arguments)
    cut = own.index("--") if "--" in own else len(own)
    return own[:cut], own[cut + 1 :]
