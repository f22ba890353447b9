"""One start of a run, from the claim of its folder to the line with its exit code: the same however it is launched."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from boonta.nodes.learning import profiling
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder import compiled, journal, temporary
from boonta.programs.wiring.run_folder.config_file import Origin
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.programs.wiring.supervision import stacks


class Session:
    """A start that goes on.

    Attributes:
      code: the exit code with which the run ends, see `launch.prepare`; None as long as it isn't known.
    """

    code: int | None = None


@contextlib.contextmanager
def opened(name: str, run: Run, settings: dict[str, Any], origin: Origin, how: str) -> Iterator[Session]:
    """Claims the run's folder for this process; within the block, the run's log and temporary files are kept there.

    The log's last line has the exit code that the block has set, or 1 if it raises an error: tools tell by it how the
    run has ended. A start without such a line was cut off.

    Args:
      name: the program's name.
      run, settings: the parsed arguments.
      origin: where the run comes from.
      how: how the program is launched, for the log.

    Raises:
      BadInput: as `claim_workdir`.
      OSError: the folder can't have what belongs there.
    """
    session, folder = Session(), pathlib.Path(run.own.workdir)
    with contextlib.ExitStack() as kept:
        kept.enter_context(claim_workdir(name, run.own, settings, origin))
        kept.enter_context(temporary.kept_in(folder))
        kept.enter_context(compiled.kept_in(pathlib.Path(run.workdir), run.hosts.first))  # Hosts share it.
        kept.enter_context(stacks.offered(folder / temporary.FOLDER))
        kept.enter_context(journal.kept_in(folder))
        journal.LOG.debug("%s%s, process %d", journal.STARTED, how, os.getpid())
        if run.profile is not None:
            journal.LOG.info("profile: %s", profiling.described(run.profile, run.own.path(profiling.FOLDER)))
        try:
            yield session
        except Exception as error:
            journal.LOG.error("the run's process failed: %s: %s", type(error).__name__, error)
            session.code = 1
            raise
        finally:
            if session.code is not None:
                journal.LOG.debug("%s%d", journal.ENDED, session.code)
