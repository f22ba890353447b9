"""The finding of a check, without the names of users and hosts, so that it can be shown to others."""

from __future__ import annotations

import os
import pathlib
import re
import socket
from typing import Literal, NamedTuple

State = Literal["ok", "warning", "missing"]


class Finding(NamedTuple):
    """One line of the report.

    Attributes:
      name: the name of the thing that was checked.
      state: "missing" where a run on this machine can't do without it.
      found: a description of what is there.
      advice: a remedy; empty if none is needed.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def anonymous(text: str) -> str:
    """A text without the names of the user and the host; the user's folder becomes ~."""
    home = str(pathlib.Path.home())
    text = re.sub(rf"{re.escape(home)}(?=/|\b)" if home != "/" else r"(?!)", "~", text)
    text = re.sub(r"/(home|Users)/[^/\s:'\"]+", "~", text)
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    for name, word in ((socket.gethostname(), "HOST"), (user, "USER")):
        if name not in ("", "localhost", "root"):  # These names identify nobody.
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)
    return text
