"""One start of a run: what its log and its folder have meanwhile and afterwards, and what tools make of that."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

from boonta.programs.experiments.outcome import is_done
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import journal, session, temporary
from boonta.programs.wiring.run_folder.config_file import Origin
from boonta.programs.wiring.run_folder.state import sentence_of, state_of
from boonta.programs.wiring.supervision import stacks

pytestmark = pytest.mark.once
JOB = Job("job", (Entry("job", __file__, "", 0, {"stop.updates": 5}, {}),))


def opened(folder: pathlib.Path, **run) -> contextlib.AbstractContextManager[session.Session]:
    origin = Origin(__file__, "program", tuple(JOB.command(folder)[1:]))
    return session.opened("program", Run(workdir=str(folder), **run), {}, origin, "--launch x")


def state(folder: pathlib.Path) -> str:
    return state_of(folder, journal.lines(folder))


@pytest.mark.parametrize(("code", "done"), [(0, True), (3, True), (1, False), (143, False)])
def test_its_last_line_has_the_code_by_which_tools_know_whether_it_is_done(tmp_path, code, done):
    assert state(tmp_path) == "never started"
    with opened(tmp_path, profile=7) as begun:
        assert state(tmp_path) == "running" and not is_done(tmp_path, JOB)
        begun.code = code
    assert state(tmp_path) == "ended" and journal.last_code(tmp_path) == code and is_done(tmp_path, JOB) == done
    started, traced, ended = journal.lines(tmp_path)
    assert f" DEBUG started: --launch x, process {os.getpid()}" in started and "INFO profile: 7 updates" in traced
    assert ended.endswith(f" DEBUG ended with code {code}")


def test_a_start_that_is_cut_off_has_no_last_line_and_the_next_one_counts(tmp_path):
    with opened(tmp_path):
        pass
    assert state(tmp_path) == "cut off" and not is_done(tmp_path, JOB)
    with opened(tmp_path) as begun:
        assert journal.last_start(tmp_path) != journal.lines(tmp_path)
        begun.code = 0
    assert state(tmp_path) == "ended" and is_done(tmp_path, JOB)


@pytest.mark.parametrize("code", [None, 0])
def test_an_error_is_a_failure_with_its_cause(tmp_path, code):
    with pytest.raises(KeyError), opened(tmp_path) as begun:
        begun.code = code
        raise KeyError("lost")
    assert journal.last_code(tmp_path) == 1
    assert sentence_of(tmp_path) == "it has ended: the run's process failed: KeyError: 'lost'"


def test_the_folder_and_its_temporary_files_are_this_processs_meanwhile(tmp_path):
    names = (temporary.VARIABLE, stacks.VARIABLE)
    before = [os.environ.get(name) for name in names]
    with opened(tmp_path):
        assert [os.environ[name] for name in names] != before and (tmp_path / temporary.FOLDER).is_dir()
        assert os.environ[stacks.VARIABLE] == str(tmp_path / temporary.FOLDER)
        with pytest.raises(BadInput, match="is in use by another process"), opened(tmp_path):
            raise AssertionError("two have it")
    assert [os.environ.get(name) for name in names] == before and not (tmp_path / temporary.FOLDER).exists()
