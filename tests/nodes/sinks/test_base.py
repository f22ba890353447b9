"""Names of sinks are checked before work starts, and a logger of Acme's is a sink."""

from __future__ import annotations

import importlib.util

import pytest

from boonta.nodes.sinks import base
from boonta.tests.helpers import sinks


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["wandbb"], "--log 'wandbb' is unknown: did you mean 'wandb'?"),
        (["jsonl"], "--log 'jsonl' is unknown: .* package.module:name for one of your own"),
        (["my.module:"], "--log 'my.module:' is unknown"),
        (["wandb", "tensorboard", "wandb"], "--log has a name twice: wandb tensorboard wandb"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(names, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        base.check_names(names)


def test_known_names_and_those_of_ones_own_pass():
    base.check_names(["tensorboard", *base.TRACKERS, "my.module:Sink"])
    base.check_names([])


@pytest.mark.parametrize("name", base.TRACKERS)
def test_a_missing_package_is_named_with_the_extra_that_installs_it(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(
        ImportError, match=rf"--log {name}: the package {name} is missing: pip install 'boonta-rl\[{name}\]'"
    ):
        base.require(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Sink", "module 'no_such_module' can't be imported"),
        ("boonta.tests.helpers.sinks:Nothing", "module 'boonta.tests.helpers.sinks' has no 'Nothing'"),
    ],
)
def test_ones_own_must_be_there(name, message):
    with pytest.raises(ImportError, match=message):
        base.require(name)


def test_a_sink_of_ones_own_is_made_by_its_name():
    assert isinstance(base.make("boonta.tests.helpers.sinks:Recording"), sinks.Recording)


class Plain:
    """What Acme's loggers have."""

    rows: list[dict] = []
    closed = False

    def write(self, data):
        self.rows.append(data)

    def close(self):
        Plain.closed = True


def test_a_logger_with_write_and_close_alone_is_a_sink(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "Plain", Plain, raising=False)
    sink = base.make("boonta.tests.helpers.sinks:Plain")
    sink.begin(base.TrackedRun(tmp_path))
    sink.write({"loss": 1.0})
    sink.close()
    assert Plain.rows == [{"loss": 1.0}] and Plain.closed


@pytest.mark.cluster
def test_acmes_own_logger_is_a_sink(tmp_path):
    from acme.utils.loggers import InMemoryLogger

    logger = InMemoryLogger()
    sink: base.Sink = base.FromLogger(logger)
    sink.begin(base.TrackedRun(tmp_path))
    sink.write({"loss": 1.0})
    assert list(logger.data) == [{"loss": 1.0}]
