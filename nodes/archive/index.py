"""The index of an archive: the files in its folder, their checksums, and the environment they were recorded in."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, NamedTuple

import jax
from dm_env import specs

from boonta.agents.base import Nest
from boonta.envs.base import Env
from boonta.nodes.snapshots.files import sealed, unseal, write_whole

FORMAT = "boonta trajectories"
VERSION = 1
INDEX = "index.json"


class Leaf(NamedTuple):
    """The type of one leaf of one step."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Chunk(NamedTuple):
    """A file: its name, its numbers of rows, trajectories and complete episodes, and its SHA-256 in hexadecimal."""

    file: str
    steps: int
    trajectories: int
    episodes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Index:
    """The contents of an archive.

    Attributes:
      environment: description of the environment, see `describe`.
      columns: leaves of one step, by path.
      steps: number of rows in all chunks.
      trajectories: number of trajectories, complete or not.
      episodes: number of complete trajectories, from FIRST to LAST.
      mean_return: mean raw return of the complete episodes, from player 0's view in games of two; None without any.
      chunks: the files.
    """

    environment: dict[str, Any]
    columns: dict[str, Leaf]
    steps: int
    trajectories: int
    episodes: int
    mean_return: float | None
    chunks: tuple[Chunk, ...]


def describe(env: Env) -> dict[str, Any]:
    """Describes an environment by its name, its settings if it is a dataclass, and its spec."""
    spec = env.spec
    any_env: Any = env
    fields = dataclasses.fields(any_env) if dataclasses.is_dataclass(any_env) else ()
    settings = {field.name: getattr(any_env, field.name) for field in fields}
    return {
        "name": type(env).__name__,
        "settings": json.loads(json.dumps(settings, default=_text)),
        "observations": {path: str(_leaf(leaf)) for path, leaf in leaves(spec.observations).items()},
        "actions": str(_leaf(spec.actions)),
        "num_actions": int(spec.actions.num_values) if isinstance(spec.actions, specs.DiscreteArray) else None,
        "num_players": spec.num_players,
    }


def require_environment(folder: pathlib.Path, archived: dict[str, Any], env: Env) -> None:
    """Raises ValueError, naming what differs, if an archive is of another environment.

    Settings that only one of the two has are ignored, because later versions of an environment may add settings.
    """
    wanted = describe(env)
    known = archived["settings"].keys() & wanted["settings"].keys()
    pairs = {field: (archived[field], wanted[field]) for field in wanted if field != "settings"}
    pairs |= {f"setting {name}": (archived["settings"][name], wanted["settings"][name]) for name in sorted(known)}
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
        raise ValueError(f"{folder} is not a folder; an archive is a folder with {INDEX}, see programs.tools.export")
    if not any(folder.iterdir()):
        raise ValueError(f"{folder} is empty; programs.tools.export makes an archive of a run")
    if not path.exists():
        raise ValueError(f"{folder} has no {INDEX}: it is not an archive, or its export was cut short; export it again")
    try:
        content = json.loads(path.read_bytes())
        format_, version = content["format"], int(content["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or not an archive's: {error!r}") from error
    if format_ == FORMAT and version > VERSION:
        raise ValueError(f"{path} is of version {version}; this program reads versions up to {VERSION}: update it")
    if not unseal(content):
        raise ValueError(f"{path} is damaged, or not an archive's: it doesn't match the checksum of itself")
    names = [field.name for field in dataclasses.fields(Index)]
    fields = {name: content[name] for name in names}
    fields["columns"] = {name: Leaf(dtype, tuple(shape)) for name, (dtype, shape) in content["columns"].items()}
    fields["chunks"] = tuple(Chunk(*chunk) for chunk in content["chunks"])
    return Index(**fields)


def leaves(nest: Nest) -> dict[str, Any]:
    """Returns the leaves of a nest by path, such as "observation/view"; the path of a single leaf is ""."""
    flat, _ = jax.tree_util.tree_flatten_with_path(nest)
    return {"/".join(_part(key) for key in path): leaf for path, leaf in flat}


def _part(key: Any) -> str:
    """Converts a JAX key to one part of a path: a field's name, a dict's key, or an index."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _leaf(spec: specs.Array) -> Leaf:
    return Leaf(spec.dtype.name, tuple(spec.shape))


def _text(setting: Any) -> str:
    """Describes a setting in the same way in every process: a function by its name, not by its address."""
    return getattr(setting, "__qualname__", None) or repr(setting)
