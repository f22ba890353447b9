"""Ctrl-C, SIGTERM and SIGHUP at any moment: a program ends with a line and an exit code, without a traceback.

While it imports, Ctrl-C is an exception that only libraries catch, which is mended (`install`). From its launch on, the
supervisor decides what follows from a signal (`Signals`). In between, and around changes of the process itself, the
signal waits (`hold`, `held`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

TERMINATING = (signal.SIGTERM, signal.SIGHUP)  # The latter comes when a terminal or connection is closed.
ENDING = (signal.SIGINT, *TERMINATING)
# Exit codes of a process that was asked to end; one that handles the signal exits with 128 + its number.
ASKED_TO_END = frozenset(code for number in ENDING for code in (128 + number, -number))
CODE = 128 + signal.SIGINT
LINE = "ended by SIGINT"
HELD = "BOONTA_HELD"  # The environment variable of a command that starts with Ctrl-C held back.
CONNECTED = "BOONTA_CONNECTED"  # The environment variable of a command that is to end with its standard input.
STDIN, CHUNK = 0, 1 << 16
AGAIN_S = 0.02  # Time for a callback in which Python can't pass an exception on to return.
SWALLOWED_S = 0.5  # Time for an exception to end the process, after which a library must have swallowed it.


def install() -> None:
    """Makes Ctrl-C end this process with a line, where nothing handles it; an interactive session stays as it is."""
    if not (sys.flags.interactive or hasattr(sys, "ps1")):
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with contextlib.suppress(ValueError):  # Only the main thread may.
                signal.signal(signal.SIGINT, interrupted)
        sys.excepthook = functools.partial(_uncaught, sys.excepthook)
        sys.unraisablehook = functools.partial(_unraisable, sys.unraisablehook)
    if os.environ.pop(HELD, None) is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def hold() -> None:
    """Holds Ctrl-C back until the command that this process is about to become has imported Boonta."""
    os.environ[HELD] = "SIGINT"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def end_with_input() -> None:
    """Ends this process as SIGTERM does once its standard input is at its end, if `CONNECTED` asks for that."""
    if os.environ.pop(CONNECTED, None) is not None:
        threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    with contextlib.suppress(OSError):  # A connection may also end with an error.
        while os.read(STDIN, CHUNK):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def held(numbers: Collection[signal.Signals] = (signal.SIGINT,)) -> Iterator[None]:
    """Holds signals back meanwhile; the processes that start in this time never receive them, unless they ask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave(leave: Callable[[int], Any] = sys.exit) -> None:
    """Ends this process after Ctrl-C; a second one must not disturb its end.

    Args:
      leave: ends the process with a code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(LINE, file=sys.stderr, flush=True)
    leave(CODE)


def handle(handler: Any, numbers: Collection[signal.Signals] = ENDING) -> None:
    """Sets the handler of signals that end a program; SIGHUP stays ignored where it is, as by `nohup`."""
    for number in numbers:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


class Signals:
    """Catches Ctrl-C, SIGTERM and SIGHUP from now on.

    Attributes:
      number: the first signal that came; 0 if there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        self.catch()

    def catch(self) -> None:
        """Catches them again, where a library has set handlers of its own meanwhile."""
        handle(self._caught)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = self.number or number


def interrupted(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, as Python does, and once more where an import may swallow it.

    Libraries try imports that may fail, some with a bare `except`, and C++ modules drop exceptions of what they import.
    """
    if _is_within(frame, lambda code: code is _unraisable.__code__):  # Python would only print it once more.
        _interrupt_after(AGAIN_S)
        return
    if _is_within(frame, lambda code: code.co_filename.startswith("<frozen importlib")):
        _interrupt_after(SWALLOWED_S)
    signal.default_int_handler(number, frame)


def _is_within(frame: FrameType | None, is_it: Callable[[CodeType], bool]) -> bool:
    """Whether a frame, or one that has called it, runs such code."""
    while frame is not None:
        if is_it(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _interrupt_after(seconds: float) -> None:
    again = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def _uncaught(
    usual: Callable[..., None], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if _is_interrupt(error):
        leave()
    usual(kind, error, trace)


def _unraisable(usual: Callable[..., None], unraisable: sys.UnraisableHookArgs) -> None:
    """Sends the signal once more: Python would only print an exception that was raised in a callback."""
    if unraisable.exc_type is KeyboardInterrupt:
        _interrupt_after(AGAIN_S)
    else:
        usual(unraisable)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an exception is Ctrl-C's, or follows from it: C++ libraries turn it into errors of their own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
