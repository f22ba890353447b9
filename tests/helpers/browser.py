"""Chromium without a screen: opens a page, clicks, and runs scripts in it, by the DevTools protocol over a pipe.

See "Chrome DevTools Protocol" (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DEADLINE_S = 60.0
POLL_S = 0.05
PIPE = 'exec "$@" 3<&0 4>&1 </dev/null 1>&2'  # Chromium reads commands from descriptor 3, and answers on 4.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")


class Page:
    """A page that the browser shows.

    Args:
      process: the browser.
      address: the page's address.
    """

    def __init__(self, process: subprocess.Popen, address: str):
        self._process = process
        self._sent = 0
        self._session: dict[str, str] = {}
        target = self._call("Target.createTarget", url=address)["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def run(self, script: str) -> Any:
        """The value of a script's expression.

        Raises:
          AssertionError: the script throws.
        """
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until an expression is true.

        Raises:
          AssertionError: it doesn't become true; the page's text is in the message.
        """
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):  # While another page loads, there is none to run a script in.
                if self.run(f"document.readyState === 'complete' && Boolean({condition})"):
                    return
            time.sleep(POLL_S)
        raise AssertionError(f"{condition} isn't true of this page: {self.run('document.body.innerText')}")

    def click(self, selector: str) -> None:
        """Clicks with the mouse on the middle of the first element that a CSS selector finds."""
        middle = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); found.scrollIntoView(); "
            "const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": middle[0], "y": middle[1]}
            self._call("Input.dispatchMouseEvent", type=kind, **at, button="left", clickCount=1)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        command = {"id": self._sent, "method": method, "params": params, **self._session}
        self._process.stdin.write(json.dumps(command).encode() + b"\0")
        self._process.stdin.flush()
        while True:
            message = json.loads(self._read())
            if message.get("id") == self._sent:
                assert "error" not in message, message
                return message["result"]

    def _read(self) -> bytes:
        """The next message."""
        read = bytearray()
        while (byte := self._process.stdout.read(1)) not in (b"\0", b""):
            read += byte
        if not byte:
            raise EOFError("the browser has ended; its output says why")
        return bytes(read)


@contextlib.contextmanager
def opened(address: str, folder: pathlib.Path) -> Iterator[Page]:
    """A page in a browser of its own.

    Args:
      address: the page's address.
      folder: where the browser keeps what it likes to.
    """
    command = ["sh", "-c", PIPE, "sh", str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'browser'}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Page(process, address)
        finally:
            process.kill()
