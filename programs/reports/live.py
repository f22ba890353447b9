"""The live page of a run: a server on the loopback device that reads the run's folder; the run knows nothing of it."""

from __future__ import annotations

import contextlib
import html
import http.server
import json
import mimetypes
import pathlib
import platform
import secrets
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from boonta.nodes.snapshots import schema
from boonta.programs.experiments import figures
from boonta.programs.experiments.curves import Moment, moments
from boonta.programs.reports import charts, page, picture
from boonta.programs.reports.meanings import found
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal, temporary
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.recorded import Picture
from boonta.programs.wiring.run_folder.state import SENTENCES, GrowingRows, last_row, state_of
from boonta.programs.wiring.supervision import stacks

HTML = pathlib.Path(__file__).with_name("live.html")
LOOPBACK = "127.0.0.1"
POLICY = "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'"  # The page loads nothing from elsewhere.
LOG_BYTES = 20_000  # The end of a log that is shown.
SHOWN = ("returns_seconds", "throughput", "time_")  # The first letters of the charts on the live page.


class Live:
    """What the live page asks for; each method answers one request.

    Args:
      folder: the run's folder; the run may still be starting.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._drawn: tuple[float, str] = (-1.0, "")  # The time of the last row that is drawn, and the charts.
        self._rows = GrowingRows(folder)
        self._drawing = threading.Lock()  # Matplotlib's pyplot draws for one thread at a time.

    def page(self) -> str:
        """The page."""
        with self._drawing, tempfile.TemporaryDirectory(prefix="boonta-report-") as name:
            path = pathlib.Path(name) / page.PROGRAM
            if (shown := self._picture()).groups:
                picture.draw(shown, path)
            drawn = path.read_text() if path.exists() else "<p>An older Boonta has not recorded the program.</p>"
        svg = drawn[drawn.index("<svg") :] if "<svg" in drawn else drawn
        return (
            HTML.read_text().replace("{{name}}", html.escape(self._folder.resolve().name)).replace("{{picture}}", svg)
        )

    def status(self) -> str:
        """The monitor's status, its age in seconds, and whether the run goes on, as JSON."""
        known = page.status_of(self._folder)
        log = journal.last_start(self._folder)
        state = state_of(self._folder, log)
        run = {
            "state": state,
            "sentence": SENTENCES[state],
            "end": journal.end_of(log) or "",
            "age_s": time.time() - known["at"] if "at" in known else None,
        }
        return json.dumps({**known, **run})

    def charts(self) -> str:
        """The charts, as SVGs one after another; they are drawn again when there is a new row."""
        with self._drawing:
            past = moments(self._rows.look())
            last = past[-1].seconds if past else 0.0
            if last != self._drawn[0]:
                self._drawn = last, _charts(past)
            return self._drawn[1]

    def report(self) -> str:
        """The written report of the run as it is now."""
        with self._drawing:
            return page.whole(read_config(self._folder), self._folder)

    def media(self, name: str) -> tuple[bytes, str] | None:
        """A picture or film of the run, to which the report may link, and its type; None for any other path."""
        if name not in map(str, page.media(self._folder)):
            return None
        return (self._folder / name).read_bytes(), mimetypes.guess_type(name)[0] or "image/png"

    def log(self, node: str) -> str:
        """The end of a node's log; where all nodes share a process, that of the run's log."""
        files = [self._logs() / name for name in (node, f"{node}/0")] if self._is_node(node) else []
        path = next((file for file in files if file.is_file()), self._folder / journal.FILE)
        return journal.tail(path, LOG_BYTES).decode(errors="replace")

    def metrics(self, node: str) -> str:
        """The newest values of a node's own metrics, or of its group's, with their meaning, as lines."""
        agent = read_config(self._folder).agent
        group, lines = node.partition("/")[0], []
        for name, value in last_row(self._folder).items():
            if name.endswith(f"/{node}") or name.startswith(f"share/{group}/"):
                meaning = "".join(f"  {metric.meaning}" for metric in found(name, agent)[:1])
                lines.append(f"{name}  {'-' if value is None else format(value, ',.5g')}{meaning}")
        return "\n".join(lines) or "No row of metrics names this node yet."

    def stack(self, node: str) -> str:
        """What the threads of a node's process do at this moment."""
        host, pid = self._process(node)
        if pid is None:
            return "Its process isn't known: it has sent no heartbeat yet."
        if host not in ("", platform.node()):
            return f"It runs on another host, {host}, as process {pid}."
        try:
            return stacks.ask(self._folder / temporary.FOLDER, pid)
        except LookupError as error:
            return str(error)

    def _process(self, node: str) -> tuple[str, int | None]:
        """The host of a node's process, and its process id, which the launcher knows before the monitor does."""
        try:
            pid = schema.parse(schema.read(self._logs() / "pids.json")).get(node)
        except (OSError, ValueError):
            pid = None
        if isinstance(pid, int):
            return "", pid
        reported = page.status_of(self._folder).get("nodes", {}).get(node, {})
        host, _, number = str(reported.get("process", "")).rpartition("/")
        return host, int(number) if number.isdigit() else None

    def _logs(self) -> pathlib.Path:
        """The folder with the processes' logs of the last start."""
        return max((self._folder / "logs").glob("*"), default=self._folder / "logs")

    def _is_node(self, node: str) -> bool:
        return any(node in group.names for group in self._picture().groups)

    def _picture(self) -> Picture:
        return read_config(self._folder).picture


def _charts(past: Sequence[Moment]) -> str:
    """The charts of the live page as SVGs, each below its caption."""
    parts = []
    with tempfile.TemporaryDirectory(prefix="boonta-report-") as folder:
        for name, chart in charts.charts(past).items():
            if name.startswith(SHOWN):
                path = pathlib.Path(folder, name)
                figures.draw(chart.panels, path, chart.xlabel, chart.ylabel, "", "", formats=("svg",))
                svg = pathlib.Path(folder, f"{name}.svg").read_text()
                parts.append(f"<h3>{html.escape(chart.caption)}</h3>{svg[svg.index('<svg') :]}")
    return "\n".join(parts)


def serve(folder: pathlib.Path, port: int) -> None:
    """Serves the live page until Ctrl-C.

    Raises:
      OSError: the port is taken.
    """
    with serving(folder, port, secrets.token_urlsafe()) as (server, address):
        print(f"{address}\nCtrl-C ends this page, and not the run.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def serve_beside(folder: pathlib.Path) -> None:
    """Serves the live page until standard input ends, as a launcher's does when the run has ended."""
    with serving(folder, 0, secrets.token_urlsafe()) as (server, address):
        print(f"dashboard: {address}", flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


@contextlib.contextmanager
def serving(folder: pathlib.Path, port: int, key: str) -> Iterator[tuple[http.server.ThreadingHTTPServer, str]]:
    """The server of a live page and its address, whose key keeps other users of the machine, and other pages, out."""
    with http.server.ThreadingHTTPServer((LOOPBACK, port), _handler(Live(folder), key)) as server:
        yield server, f"http://{LOOPBACK}:{server.server_port}/{key}/"


def _handler(live: Live, key: str) -> type[http.server.BaseHTTPRequestHandler]:
    plain: dict[str, tuple[Callable[[], str], str]] = {
        "": (live.page, "text/html"),
        "status": (live.status, "application/json"),
        "charts": (live.charts, "text/html"),
        "report": (live.report, "text/html"),
    }
    of_node = {"log": live.log, "metrics": live.metrics, "stack": live.stack}

    def answer(name: str, node: str) -> tuple[bytes, str] | None:
        """The content of what is asked for, and its type; None if nothing has that name."""
        if name not in plain and name not in of_node:
            return live.media(urllib.parse.unquote(name))
        make, kind = plain[name] if name in plain else (lambda: of_node[name](node), "text/plain")
        return make().encode(), f"{kind}; charset=utf-8"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802
            asked = urllib.parse.urlsplit(self.path)
            given, _, name = asked.path.removeprefix("/").partition("/")
            node = urllib.parse.parse_qs(asked.query).get("node", [""])[0]
            try:
                found = answer(name, node) if secrets.compare_digest(given.encode(), key.encode()) else None
            except (BadInput, OSError, ValueError) as error:
                self.send_error(503, ascii(f"{error}".partition("\n")[0])[1:-1])
                return
            if found is None:
                self.send_error(404)
                return
            content, kind = found
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, form: str, *values: Any) -> None:
            """Prints nothing: the page asks every second."""

    return Handler


if __name__ == "__main__":
    serve_beside(pathlib.Path(sys.argv[1]))
