"""Which renderer MuJoCo gets."""

import ctypes.util
import os

import pytest

from boonta.envs import rendering


@pytest.fixture(autouse=True)
def _unchosen(monkeypatch):
    for variable in (rendering.VARIABLE, "SDL_VIDEODRIVER"):
        monkeypatch.setenv(variable, "")  # So that the variable is put back.
        monkeypatch.delenv(variable)
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    rendering._best.cache_clear()
    yield
    rendering._best.cache_clear()


@pytest.mark.parametrize(
    ("egl", "osmesa", "display", "wanted"),
    [(True, True, ":0", "egl"), (False, True, ":0", "osmesa"), (False, False, ":0", "glfw"), (False, False, "", "off")],
)
def test_what_needs_no_screen_comes_first(egl, osmesa, display, wanted, monkeypatch):
    monkeypatch.setattr(rendering, "_has_egl", lambda: egl)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: "libOSMesa.so" if osmesa else None)
    monkeypatch.setenv("DISPLAY", display)
    assert rendering.choose() == wanted
    assert os.environ.get("SDL_VIDEODRIVER") == (None if display else "dummy")


def test_a_choice_of_the_users_stays(monkeypatch):
    monkeypatch.setenv(rendering.VARIABLE, "osmesa")
    assert rendering.choose() == rendering.require() == "osmesa"


def test_without_any_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ValueError, match="MUJOCO_GL is 'off': drawing needs EGL .*apt install libegl1 .* libosmesa6"):
        rendering.require()
