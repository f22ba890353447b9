"""The page's examples work, and it has all names."""

from __future__ import annotations

import pathlib
import re
import threading

import pytest

from boonta.nodes.sinks import base, follow
from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.sinks import write_rows

PAGE = pathlib.Path(follow.__file__).with_name("README.md")
SINK, LOGGER = python_blocks(PAGE)


def send(folder: pathlib.Path, name: str) -> None:
    ended = threading.Event()
    ended.set()
    (folder / follow.FOLDER).mkdir(exist_ok=True)
    assert follow.Follower(folder, name, ended, print).run()


def module(folder: pathlib.Path, monkeypatch, code: str, name: str) -> str:
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_the_sink_of_the_page_keeps_a_table_over_a_resume(tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch, SINK, "sinks_of_the_page")
    for step in (10.0, 20.0):
        write_rows(tmp_path, {"env_steps": step, "return": step / 10}, {"env_steps": step})
        send(tmp_path, f"{name}:Csv")
    assert (tmp_path / "returns.csv").read_text().split() == ["10.0,1.0", "20.0,2.0"]


@pytest.mark.cluster
def test_the_logger_of_the_page_is_acmes(tmp_path, monkeypatch):
    name = module(tmp_path, monkeypatch, LOGGER, "loggers_of_the_page")
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path, {"env_steps": 10.0, "return": 1.0})
    send(tmp_path, f"{name}:make")
    (table,) = (tmp_path / "logs").rglob("*.csv")
    assert table.read_text().split() == ["env_steps,return", "10.0,1.0"]


def test_all_names_are_on_the_page():
    assert set(re.findall(r"(?m)^\| `(\w+)`", PAGE.read_text())) == set(base.KNOWN)
    assert set(re.findall(r"boonta-rl\[(\w+)\]", PAGE.read_text())) == set(base.TRACKERS)
