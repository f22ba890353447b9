"""Environments by name, and their settings as flags."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from dm_env import specs

from boonta.envs.base import EnvSpec
from boonta.envs.catch import Catch
from boonta.envs.continuing import Continuing
from boonta.envs.dm_control import DmControl
from boonta.envs.dm_env import DmEnv
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.jax import catch as catch_in_jax
from boonta.envs.jax import minatar as minatar_in_jax
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.minatar import MinAtar
from boonta.envs.names import named
from boonta.envs.one_slot import OneSlot
from boonta.envs.processes import InProcesses
from boonta.programs.impala import impala
from boonta.programs.wiring import environments
from boonta.programs.wiring.command_line.arguments import parse, presets_of
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.interpreters.anakin import jax_env_of
from boonta.programs.wiring.run import BadInput

MIXED = "default", "continuous"  # The kinds of discrete and of real-valued actions.


def test_names_make_environments_of_their_kind():
    for name, env, kind in (
        ("catch", Catch(), "catch"),
        ("minatar/breakout", MinAtar("breakout"), "minatar"),
        ("gymnax/CartPole-v1", Gymnax("CartPole-v1"), "cartpole"),
    ):
        made = environments.make_env(name)
        assert made == env and environments.kind_of(made) == kind
        assert environments.name_of(made) == name.replace("/", "-")
    kinds = {
        "brax/fast": "brax",
        "dm_control/cartpole-swingup": "dm_control",
        "gymnasium/CartPole-v1": "cartpole",
        "gymnasium/HalfCheetah-v5": "mujoco",
        "gymnasium/Acrobot-v1": "gymnasium",
        "gymnasium/Pendulum-v1": "continuous",
        "gymnax/Acrobot-v1": "gymnax",
        "gymnax/Pendulum-v1": "continuous",
    }
    assert {name: environments.kind_of(environments.make_env(name)) for name in kinds} == kinds
    assert environments.kind_of(environments.make_env("pgx/connect_four")) == "connect_four"
    assert environments.kind_of(environments.make_env("pgx/tic_tac_toe")) == "board"


def test_a_twin_in_jax_has_the_name_of_the_world_that_it_is():
    assert environments.name_of(minatar_in_jax.MinAtar("breakout")) == "minatar-breakout"
    assert environments.name_of(catch_in_jax.Catch()) == "catch"


def test_an_environment_of_the_users_own_has_the_name_of_what_makes_it():
    assert environments.name_of(DmEnv(OneSlot, {"env": Catch()})) == "boonta.envs.one_slot-OneSlot"
    assert environments.name_of(Gymnasium(Bare)).endswith("test_environments-Bare")


def test_an_environment_of_the_users_own_may_have_the_name_of_one_of_ours():
    kind, settings = environments.kind_of(Atari()), environments.settings_class(Atari())
    assert kind == "default" and (settings.rows, settings.columns) == (6, 3)
    assert environments.name_of(Atari()) == "atari"


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [((96, 96, 3), ("atari", "dm_control_pixels")), ((36, 40), ("atari", "dm_control_pixels")), ((7, 7, 3), MIXED)],
)
def test_worlds_that_show_pictures_have_presets_for_these(shape, kinds):
    actions = specs.DiscreteArray(3), specs.BoundedArray((2,), np.float32, -1, 1)
    for kind, its in zip(kinds, actions):
        assert environments.kind_of(Shows(EnvSpec(specs.Array(shape, np.uint8), its))) == kind
        mixed = {"camera": specs.Array(shape, np.uint8), "speed": specs.Array((2,), np.float32)}
        assert environments.kind_of(Shows(EnvSpec(mixed, its))) == MIXED[kinds.index(kind)]


def test_a_wrapped_environment_is_of_the_kind_of_its_own():
    for name in ("catch", "gymnasium/CartPole-v1", "gymnasium/Pendulum-v1", "gymnax/CartPole-v1"):
        env = environments.make_env(name)
        kinds = {environments.kind_of(each) for each in (env, InProcesses(env, 2), Continuing(InProcesses(env, 2)))}
        assert len(kinds) == 1


@dataclasses.dataclass(frozen=True)
class Shows:
    """An environment of which only the spec matters."""

    spec: EnvSpec


@dataclasses.dataclass(frozen=True)
class Atari:
    """Small images, whose first field names no game."""

    rows: int = 6
    columns: int = 3

    @property
    def spec(self):
        return Catch(self.rows, self.columns).spec

    def __call__(self, num_envs, seed):
        return Catch(self.rows, self.columns)(num_envs, seed)


class Bare(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minatr/breakout", "environment 'minatr/breakout' is unknown: did you mean 'minatar'"),
        ("nothing", r"environment 'nothing' is unknown: allowed: atari, .*, pgx\. Examples: "),
        ("CartPole-v1", r"environment 'CartPole-v1' is unknown: did you mean 'gymnasium/CartPole-v1'\? Examples: "),
        ("minatar", "environment 'minatar' must be written like 'minatar/breakout'"),
        ("catch/me", "environment 'catch/me' must be written like 'catch'"),
        ("minatar/brakeout", "environment 'minatar/brakeout': .*breakout"),
        ("gymnasium/CartPool-v1", "environment 'gymnasium/CartPool-v1': .* did you mean 'CartPole-v1'"),
        ("gymnasium/CartPole-v9", "environment 'gymnasium/CartPole-v9': .* did you mean 'CartPole-v1'"),
        ("gymnasium/HalfCheeta-v5", "environment 'gymnasium/HalfCheeta-v5': .* did you mean 'HalfCheetah-v5'"),
        ("dm_control/cartpol-swingup", "environment 'dm_control/cartpol-swingup': .* did you mean 'cartpole-swingup'"),
        ("dm_controll/cartpole-swingup", "is unknown: did you mean 'dm_control'"),
        ("brax/hoper", "environment 'brax/hoper': .* did you mean 'hopper'"),
        ("nowhere:Env", "module 'nowhere' can't be imported"),
        ("boonta.envs.catch:Catsh", "module 'boonta.envs.catch' has no 'Catsh': did you mean 'Catch'.?"),
        ("boonta.envs.base:FIRST", "is a int, not an Env"),
        ("my_games.hunt", r"environment 'my_games.hunt' is unknown: .*, or my_games:hunt for one of your own"),
        ("boonta.tests.envs.test_dm_env:Seedless", "is a Seedless, .*; as one of dm_env's, return DmEnv.Seedless., of"),
        (f"{__name__}:Bare", "is a Bare, not an Env: .*; as one of Gymnasium's, return Gymnasium.Bare., of"),
    ],
)
def test_a_wrong_name_is_refused_with_what_is_near(name, message):
    with pytest.raises(BadInput, match=message):
        environments.make_env(name)


def test_the_examples_of_names_can_be_made():
    for family_name, family in environments.FAMILIES.items():
        if family_name != "envpool":  # It is not among the locked packages.
            assert environments.name_of(environments.make_env(family.example)) == family.example.replace("/", "-")


def test_an_environment_that_lacks_a_package_is_refused_with_what_to_install():
    if importlib.util.find_spec("Box2D") is None:
        with pytest.raises(BadInput, match=r"environment 'gymnasium/LunarLander-v3': .*gymnasium\[box2d\]"):
            environments.make_env("gymnasium/LunarLander-v3")


def test_one_of_your_own_is_found_where_the_command_was_given(tmp_path, monkeypatch):
    (tmp_path / "an_env_of_mine.py").write_text(
        "from boonta.envs.catch import Catch\n\n\ndef small():\n    return Catch(6, 3)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert environments.make_env("an_env_of_mine:small") == Catch(6, 3)


@pytest.mark.parametrize("is_namespace", [False, True])
def test_one_of_your_own_is_found_in_a_package_of_a_name_that_boonta_has_too(tmp_path, is_namespace):
    """In a process of its own, since this one may have imported packages of these names."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "mine.py").write_text("from boonta.envs.catch import Catch\n")
    if not is_namespace:
        (tmp_path / "envs" / "__init__.py").touch()
    root = pathlib.Path(environments.__file__).resolve().parents[2]
    code = (
        f"import sys\nsys.path[:0] = [{str(root)!r}, {str(root / 'programs')!r}]\n"
        "from boonta.envs.names import named\nbefore = list(sys.path)\nnamed('envs.mine:Catch')\n"
        "assert set(before) <= set(sys.path)\nassert named('tools.list:main')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_module_of_your_own_lacks_is_told_and_it_is_imported_once(tmp_path, monkeypatch):
    (tmp_path / "lacking").mkdir()
    text = "import lacking.core\nlacking.core.COUNT.append(1)\nimport is_not_installed\n"
    (tmp_path / "lacking" / "__init__.py").write_text(text)
    (tmp_path / "lacking" / "core.py").write_text("COUNT = []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ImportError, match="'lacking' can't be imported: No module named 'is_not_installed'"):
        named("lacking:hunt")
    assert sys.modules["lacking.core"].COUNT == [1]


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("my_point.py", "my_point"),
        ("./my_point.py", "my_point"),
        ("worlds/my_point", "worlds.my_point"),
        ("/elsewhere/my_point.py", "my_point"),
    ],
)
def test_a_file_in_the_place_of_a_module_is_refused_with_the_form_that_is_wanted(file, module):
    told = f"'{file}' is a file, and what is wanted is a module on the import path, such as '{module}:Point'"
    with pytest.raises(BadInput, match=told):
        environments.make_env(f"{file}:Point")


def test_one_of_your_own_that_takes_arguments_is_refused(tmp_path, monkeypatch):
    (tmp_path / "an_env_with_arguments.py").write_text("def make(num_envs, seed):\n    raise AssertionError\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="is called without arguments, .*: missing a required argument: 'num_envs'"):
        environments.make_env("an_env_with_arguments:make")


def test_one_of_your_own_that_lacks_a_method_is_refused_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "half_a_game.py").write_text(
        "from boonta.envs.jax.base import Game\n\n\nclass Half(Game):\n    def reset(self, key):\n        return ()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="environment 'half_a_game:Half' lacks move, observe, spec"):
        environments.make_env("half_a_game:Half")


def test_one_of_your_own_whose_spec_mixes_dtypes_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a_mixed_world.py").write_text(
        "import numpy as np\nfrom dm_env import specs\nfrom boonta.envs.catch import Catch\n\n\n"
        "class Mixed(Catch):\n    @property\n    def spec(self):\n"
        "        exact = specs.Array((2,), np.float64)\n"
        "        return super().spec._replace(observations={'rough': specs.Array((2,), np.float32), 'exact': exact})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="real numbers are float32; seen: exact of observations is float64"):
        environments.make_env("a_mixed_world:Mixed")


def test_settings_are_flags_and_presets_are_of_the_kind(tmp_path):
    arguments = ["minatar/asterix", "--env.sticky-actions", "0.25", "--workdir", str(tmp_path), "--num-envs", "8"]
    run, settings = parse(impala, arguments)
    assert settings["env"] == MinAtar("asterix", sticky_actions=0.25)
    assert settings["config"].batch_size == 64 and settings["evaluation"].every_updates == 5_000
    message = presets_of(settings, "local_mp")
    assert "environment minatar-asterix, presets for 'minatar'" in message and "optimiser.max_grad_norm 0.5" in message
    assert "evaluation: 50 episodes every 60 s, in at most 10% of its node's time" in message
    assert "evaluation: 50 episodes every 5,000 updates" in presets_of(settings, "anakin").splitlines()[-1]
    none = {**settings, "evaluation": Evaluation(every_updates=0)}
    assert presets_of(none, "anakin").endswith("evaluation: none")
    run, _ = parse(impala, ["minatar/asterix"])
    assert run.workdir.endswith("runs/impala-minatar-asterix")


def test_settings_of_continuous_environments_are_flags():
    flags = ["--env.observe", "leaves", "--env.action-repeat", "4", "--env.workers", "2"]
    assert environments.make_env("dm_control/walker-walk", flags) == DmControl("walker-walk", "leaves", 4, workers=2)
    assert environments.make_env("gymnasium/Pendulum-v1", ["--env.workers", "2"]) == Gymnasium("Pendulum-v1", workers=2)


def test_names_of_metrics_are_a_flag(tmp_path):
    flags = ["--env.metrics", "is_success", "cost", "--workdir", str(tmp_path)]
    wanted = Gymnasium("CartPole-v1", metrics=("is_success", "cost"))
    assert environments.make_env("gymnasium/CartPole-v1", flags) == wanted
    assert parse(impala, ["gymnasium/CartPole-v1", *flags])[1]["env"] == wanted
    assert parse(impala, ["gymnasium/CartPole-v1", *flags[3:]])[1]["env"] == Gymnasium("CartPole-v1")
    with pytest.raises(BadInput, match="metrics is .* no name may be there twice"):
        environments.make_env("gymnasium/CartPole-v1", ["--env.metrics", "cost", "cost"])


def test_twins_in_jax_have_the_same_spec_and_settings():
    for env in (Catch(6, 3), MinAtar("freeway", sticky_actions=0.0, minimal_actions=True)):
        twin = jax_env_of(env)
        assert twin.spec == env.spec
    with pytest.raises(ValueError, match="difficulty_ramping is False; in JAX it must be True"):
        jax_env_of(MinAtar("freeway", difficulty_ramping=False))
