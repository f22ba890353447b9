"""What is logged of a run reaches the terminal and the run's folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from boonta.programs.wiring.run_folder import journal


def test_each_line_is_printed_and_kept_with_its_time(tmp_path, capsys):
    with journal.kept_in(tmp_path):
        journal.LOG.debug("for the file")
        journal.LOG.info("done: 100%")
        journal.LOG.warning("%s starts again", "actor/0")
        journal.LOG.error("learner failed")
    journal.LOG.info("after it")
    printed = capsys.readouterr()
    assert printed.out == "done: 100%\nwarning: actor/0 starts again\nafter it\n"
    assert printed.err == "error: learner failed\n"
    kept = journal.lines(tmp_path)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} [A-Z]+ ", line) for line in kept)
    assert [line.split(" ", 1)[1] for line in kept] == [
        "DEBUG for the file",
        "INFO done: 100%",
        "WARNING actor/0 starts again",
        "ERROR learner failed",
    ]


def test_a_second_start_goes_on_in_the_same_file(tmp_path):
    for word in ("one", "two"):
        with journal.kept_in(tmp_path):
            journal.LOG.debug(word)
    assert [line.rpartition(" ")[2] for line in journal.lines(tmp_path)] == ["one", "two"]


@pytest.mark.parametrize(
    ("say", "end"),
    [
        (lambda log: log.warning("actor/0 starts again"), None),
        (lambda log: log.info("done: updates reached 5"), "done: updates reached 5"),
        (lambda log: log.info("ended by SIGTERM"), "ended by SIGTERM"),
        (lambda log: log.error("learner failed:\nTraceback\n  File 7"), "learner failed:"),
        (lambda log: log.warning("the log of a node:\nan ERROR of its own\none DEBUG ended with code 0"), None),
        (lambda log: log.debug("%s%d", journal.ENDED, 0), ""),
    ],
)
def test_a_run_says_how_it_ended(tmp_path, say, end):
    with journal.kept_in(tmp_path):
        say(journal.LOG)
    assert journal.end_of(journal.lines(tmp_path)) == end


def test_an_exit_code_does_not_hide_why_a_run_ended(tmp_path):
    with journal.kept_in(tmp_path):
        journal.LOG.info("done: updates reached 5")
        journal.LOG.debug("%s%d", journal.ENDED, 0)
    assert journal.end_of(journal.lines(tmp_path)) == "done: updates reached 5"


@pytest.mark.parametrize("file", ["/dev/full", "/nowhere/run.log"])
def test_a_disk_that_takes_nothing_ends_no_run(tmp_path, capsys, file):
    os.symlink(file, tmp_path / journal.FILE)
    with journal.kept_in(tmp_path):
        journal.LOG.info("done: updates reached 5")
    assert capsys.readouterr().out == "done: updates reached 5\n"


def test_a_run_goes_on_when_nobody_reads_its_lines_any_more():
    code = (
        "import sys\nfrom boonta.programs.wiring.run_folder import journal\n"
        "from boonta.programs.wiring.supervision import view\njournal.LOG.info('first')\nsys.stdin.read()\n"
        "status = {'nodes': {}, 'totals': {}, 'row': {'env_steps': 1.0}}\n"
        "with view.View() as shown:\n    shown.show(status)\n    journal.LOG.info('second')\n"
        "journal.LOG.error('third')\nsys.exit(7)\n"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    process.stdin.close()
    assert process.wait(60) == 7
