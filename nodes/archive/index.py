"""The index of an archive: the files in its folder, their checksums, and the environment they were recorded in."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import pydantic
from dm_env import specs

from boonta.agents.base import Nest
from boonta.envs.base import SAME_STEPS, Env
from boonta.envs.jax.base import JaxEnv
from boonta.envs.names import steady
from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.files import sealed, write_whole

FORMAT = "boonta trajectories"
VERSION = 1
INDEX = "index.json"
# Archives that Boonta 0.2 has made name a JAX environment so, and have it as one text.
ADAPTER = "Batched"
IN_JAX = "jax."  # The names of JAX environments begin with it: some have a twin without JAX of the same name.
Count = Annotated[int, pydantic.Field(ge=1, lt=1 << 40)]


class Leaf(NamedTuple):
    """The type of one leaf of one step."""

    dtype: str
    shape: tuple[schema.Size, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Chunk(NamedTuple):
    """A file: its name, its numbers of rows, trajectories and complete episodes, and its SHA-256 in hexadecimal."""

    file: Annotated[str, pydantic.Field(pattern="^chunk-[0-9]{5,9}\\.parquet$")]  # The pattern keeps it in the archive.
    steps: Count
    trajectories: Count
    episodes: schema.Size
    sha256: schema.Sha256


@dataclasses.dataclass(frozen=True)
class Environment:
    """The description of an environment, see `describe`.

    Attributes:
      name: its class's; after `IN_JAX` if it is a JAX environment.
      settings: its fields, if it is a dataclass.
      observations: types of the observation's leaves by path.
      actions: type of an action.
      num_actions: number of actions; None if they are not discrete.
      num_players: number of players.
    """

    name: str
    settings: dict[str, Any]
    observations: dict[str, str]
    actions: str
    num_actions: int | None
    num_players: int


@dataclasses.dataclass(frozen=True)
class Index:
    """The contents of an archive.

    Attributes:
      environment: description of the environment.
      columns: leaves of one step, by path.
      steps: number of rows in all chunks.
      trajectories: number of trajectories, complete or not.
      episodes: number of complete trajectories, from FIRST to LAST.
      mean_return: mean raw return of the complete episodes, from player 0's view in games of two; None without any.
      chunks: the files.
    """

    environment: Environment
    columns: dict[str, Leaf]
    steps: Count
    trajectories: Count
    episodes: schema.Size
    mean_return: float | None
    chunks: tuple[Chunk, ...]


_INDEX = pydantic.TypeAdapter(Index)


def describe(env: Env) -> Environment:
    """Describes an environment by its name, its settings if it is a dataclass, and its spec.

    Settings that leave its steps unchanged, see `envs.base.SAME_STEPS`, are left out.
    """
    spec = env.spec
    made = _reduced(env)
    prefix = IN_JAX if isinstance(made, JaxEnv) else ""
    settings = {field.name: getattr(made, field.name) for field in _fields(made) if not keeps_steps(field)}
    return Environment(
        name=prefix + type(made).__name__,
        settings=json.loads(json.dumps(settings, default=_text)),
        observations={path: str(leaf) for path, leaf in types(spec.observations).items()},
        actions=str(types(spec.actions)[""]),
        num_actions=int(spec.actions.num_values) if isinstance(spec.actions, specs.DiscreteArray) else None,
        num_players=spec.num_players,
    )


def require_environment(folder: pathlib.Path, archived: Environment, env: Env) -> None:
    """Raises ValueError, naming what differs, if an archive is of another environment.

    Settings that only one of the two has are ignored, because later versions of an environment may add settings.
    """
    described = describe(env)
    if archived.name == ADAPTER and isinstance(env, JaxEnv):
        described = dataclasses.replace(described, name=archived.name, settings={"env": steady(_reduced(env))})
    there, here = dataclasses.asdict(archived), dataclasses.asdict(described)
    settings_there, settings_here = there.pop("settings"), here.pop("settings")
    pairs = {field: (there[field], here[field]) for field in here}
    known = sorted(settings_there.keys() & settings_here.keys())
    pairs |= {f"setting {name}": (settings_there[name], settings_here[name]) for name in known}
    differing = [f"{field} is {was!r} there, {now!r} here" for field, (was, now) in pairs.items() if was != now]
    if differing:
        raise ValueError(f"{folder} is of another environment: {'; '.join(differing)}")


def require_columns(what: str, held: dict[str, Leaf], needed: dict[str, Leaf]) -> None:
    """Raises ValueError, naming the leaf, if a needed leaf is missing or has another type or shape."""
    for path, leaf in needed.items():
        if path not in held:
            raise ValueError(f"{what} has no {path!r}, {leaf}; it has {', '.join(held)}")
        if held[path] != leaf:
            raise ValueError(f"{what}: {path!r} is {held[path]}; it must be {leaf}")


def summary(index: Index) -> str:
    """What an archive holds, in a sentence for people."""
    mean = "unknown" if index.mean_return is None else f"{index.mean_return:.4g}"
    pieces = index.trajectories - index.episodes
    return (
        f"{index.episodes:,} complete episodes, of mean return {mean}, and {pieces:,} pieces of others; in all "
        f"{index.steps:,} steps, in {len(index.chunks)} chunks"
    )


def write_index(folder: pathlib.Path, index: Index) -> None:
    """Writes the index with its own checksum."""
    content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(index)}
    write_whole(folder / INDEX, sealed(content))


def read_index(folder: pathlib.Path) -> Index:
    """Reads and verifies the index of an archive.

    Raises:
      ValueError: the folder doesn't exist, is empty, or has no index, a damaged one, or one of a newer version.
    """
    path = folder / INDEX
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; an archive is a folder with {INDEX}, see `boonta export`")
    if not any(folder.iterdir()):
        raise ValueError(f"{folder} is empty; `boonta export` makes an archive of a run")
    if not path.exists():
        raise ValueError(
            f"{folder} has no {INDEX}: it is not an archive, or its export was cut short; export it again, to an empty "
            "folder"
        )
    try:
        content = schema.parse(schema.read(path))
        if not _is_newer(content):
            return schema.load_sealed(_INDEX, content)
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or not an archive's: {error}") from error
    raise ValueError(
        f"{path} is of version {content['version']}; this program reads versions up to {VERSION}: update it"
    )


def _is_newer(content: dict[str, Any]) -> bool:
    version = content.get("version")
    return content.get("format") == FORMAT and type(version) is int and version > VERSION


def leaves(nest: Nest) -> dict[str, Any]:
    """Returns the leaves of a nest by path, such as "observation/view"; the path of a single leaf is ""."""
    flat, _ = jax.tree_util.tree_flatten_with_path(nest)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in flat}


def types(nest: Nest) -> dict[str, Leaf]:
    """The types of a nest's leaves, of one step each, by path."""
    return {path: Leaf(np.dtype(leaf.dtype).name, tuple(leaf.shape)) for path, leaf in leaves(nest).items()}


def _reduced(value: Any) -> Any:
    """An environment or another setting's value, with defaults for settings that leave its steps unchanged."""
    value = getattr(value, "same_as", value)
    changed = {}
    for field in _fields(value):
        now = getattr(value, field.name)
        usual = field.default if keeps_steps(field) else _reduced(now)
        if usual is not now:
            changed[field.name] = usual
    return dataclasses.replace(value, **changed) if changed else value


def _fields(value: Any) -> tuple[dataclasses.Field, ...]:
    is_one = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.fields(value) if is_one else ()


def keeps_steps(field: dataclasses.Field) -> bool:
    """Whether a setting of an environment leaves its steps unchanged."""
    return SAME_STEPS.items() <= field.metadata.items()


def _text(setting: Any) -> str:
    """Describes a setting in the same way in every process: a class or a function by its name."""
    prefix = IN_JAX if isinstance(setting, JaxEnv) else ""
    return getattr(setting, "__qualname__", None) or prefix + steady(setting)
