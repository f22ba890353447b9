"""Asks a question in a process of its own, with a deadline: libraries may crash it, or never return.

The process runs `inside`, and answers with the JSON of what the function of that name returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any, NamedTuple

from boonta.programs.wiring.machine import network
from boonta.programs.wiring.supervision.restarts import how_ended

DEADLINE_S = 120.0  # Time for an answer; importing TensorFlow and starting an accelerator take longest.
ANSWER = "boonta doctor: "  # The beginning of the line with the answer; libraries print other lines.
# JAX must not preallocate memory of an accelerator that others use.
VARIABLES = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "2", "SDL_VIDEODRIVER": "dummy"}


class Answer(NamedTuple):
    """The answer to a question, or the reason why there is none.

    Attributes:
      content: the answer; empty if there is none.
      error: the reason why there is none; empty if there is an answer.
      log: the last lines that the process printed on its standard error.
    """

    content: dict[str, Any]
    error: str = ""
    log: str = ""


def ask(question: str, deadline_s: float = DEADLINE_S) -> Answer:
    """Asks a question in a new process.

    Args:
      question: the name of a function in `inside`.
      deadline_s: time for the answer.
    """
    command = [sys.executable, "-m", "boonta.programs.tools.checks.inside", question]
    environment = {**os.environ, **VARIABLES}
    environment.pop(network.GOT, None)  # The network of this process isn't the one that a program would get.
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        printed, log = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return Answer({}, f"no answer within {deadline_s:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError):  # The process may have started others.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    log = "\n".join(log.strip().splitlines()[-5:])
    for line in printed.splitlines():
        if line.startswith(ANSWER):
            answer = json.loads(line.removeprefix(ANSWER))
            return Answer({}, answer["error"], log) if "error" in answer else Answer(answer, log=log)
    if process.returncode < 0:
        return Answer({}, how_ended(process.returncode).removeprefix("was "), log)
    return Answer({}, log.rpartition("\n")[2] or f"exit code {process.returncode}", log)
