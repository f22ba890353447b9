"""The live page of a run: what its server answers, to whom, and what a browser makes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from boonta.programs.reports import live
from boonta.programs.reports.live import Live
from boonta.programs.wiring.run_folder.recorded import Arrow, Picture, PictureGroup
from boonta.programs.wiring.supervision import stacks
from boonta.tests.helpers import browser, run_folders
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
PICTURE = Picture(
    (PictureGroup("actor", "Actor", ("actor/0",)), PictureGroup("learner", "Learner", ("learner",))),
    (Arrow("actor", "learner", "steps"),),
)
NODE = {"activity": "acting", "activity_s": 2.0, "report_age_s": 0.5, "rss_mb": 90.0, "started": True}
NODE |= {"gone": False, "failure": "", "hung": "", "warnings": []}


def nodes(pid: int) -> dict[str, dict[str, object]]:
    process = f"{platform.node()}/{pid}"
    waiting = {**NODE, "activity": "waiting for data", "process": process}
    return {"actor/0": {**NODE, "process": process, "hung": "has been acting for 400 s"}, "learner": waiting}


@pytest.fixture
def run(tmp_path):
    """The folder of a run whose learner waits and whose actor hangs; both are this process."""
    rows = [{**row, "share/actor/acting": 0.9, "eval_return/actor/0": 1.5} for row in run_folders.rows([0.0, 1.0])]
    folder = run_folders.write_run(tmp_path / "r<u>n", metrics=rows, end=["INFO done: updates reached 3"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "picture": dataclasses.asdict(PICTURE)}))
    (folder / "logs" / "20260101-000000" / "actor").mkdir(parents=True)
    (folder / "logs" / "20260101-000000" / "actor" / "0").write_text("the actor's <words>\n")
    status = {"at": time.time(), "totals": {"env_steps": 200.0}, "row": {"return": 0.5}, "nodes": nodes(os.getpid())}
    (folder / "status.json").write_text(json.dumps({**status, "reason": "", "failure": "", "health": {"a": "it fell"}}))
    (folder / "tmp").mkdir()
    return folder


@contextlib.contextmanager
def served(folder) -> Iterator[str]:
    """The address of the run's live page."""
    with live.serving(folder, 0, "a-key") as (made, address):
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield address
        finally:
            made.shutdown()
            thread.join()


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=DEADLINE_S) as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        return answer.read().decode()


def test_it_answers_who_has_the_key_and_nobody_else(run):
    with served(run) as address:
        assert address.startswith("http://127.0.0.1:") and address.endswith("/a-key/")
        page = get(address)
        assert 'id="box-actor/0"' in page and 'id="doing-learner"' in page and "{{" not in page
        assert "r&lt;u&gt;n" in page and "<u>" not in page
        for wrong in (
            address.replace("a-key", "b-key"),
            address.replace("a-key/", ""),
            f"{address}none",
            f"{address}../",
        ):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(wrong)


def test_it_tells_all_about_a_node(run):
    with served(run) as address:
        status = json.loads(get(f"{address}status"))
        assert status["nodes"]["learner"]["activity"] == "waiting for data" and 0 <= status["age_s"] < 60
        assert status["state"] == "ended" and status["end"] == "done: updates reached 3"
        assert get(f"{address}log?node=actor/0") == "the actor's <words>\n"
        assert "updates reached 3" in get(f"{address}log?node=learner")  # It has no log of its own.
        assert "updates reached 3" in get(f"{address}log?node=../../../../etc/passwd")
        told = get(f"{address}metrics?node=actor/0")
        assert "eval_return/actor/0  1.5  Mean return of the last evaluation." in told
        assert "share/actor/acting  0.9" in told
        assert "offers no stacks" in get(f"{address}stack?node=learner")
        assert get(f"{address}charts").count("<svg") == 2


def test_it_serves_the_whole_report_with_its_films_and_no_other_file(run, monkeypatch):
    monkeypatch.setattr("boonta.programs.experiments.page.LARGEST", 1_000_000)
    (run / "videos").mkdir()
    (run / "videos" / "a film.mp4").write_bytes(bytes(1_000_001))
    (run / "videos" / ".part.gif").write_bytes(b"being written")
    (run / "tree.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><title>a search</title></svg>')
    (run / "matches.txt").write_text("against uct:10\n  3 won\n")
    (run.parent / "outside.png").write_bytes(b"not the run's")
    with served(run) as address:
        assert '<a href="report">' in get(address)
        report = get(f"{address}report")
        for text in ("<td>config.rate</td>", "3 won", "tree.svg", "data:image/svg+xml", "updates reached 3"):
            assert text in report, text
        (link,) = re.findall(r'href="([^"]+)"', report)
        assert link == "videos/a%20film.mp4" and get(f"{address}{link}") == "\0" * 1_000_001
        assert "a search" in get(f"{address}tree.svg")
        root = "%2F".join([".."] * 20)
        others = ["../outside.png", "videos/../../outside.png", "%2E%2E/outside.png", "..%2Foutside.png", "config.json"]
        for other in (*others, "videos/.part.gif", "videos/../tree.svg", str(run / "tree.svg"), f"{root}/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(f"{address}{other}")
        (run / "config.json").write_text("{")
        with pytest.raises(urllib.error.HTTPError, match="503.*damaged"):
            get(f"{address}report")


def test_a_group_whose_label_has_a_dot_has_its_chart(tmp_path):
    rows = [{**row, "share/level-0.5/acting": 0.9} for row in run_folders.rows([0.0, 1.0])]
    assert "How level-0.5 spends its time" in Live(run_folders.write_run(tmp_path / "run", metrics=rows)).charts()


def test_the_stack_of_a_node_is_that_of_its_process(run, monkeypatch):
    monkeypatch.setattr(live.stacks, "ask", functools.partial(live.stacks.ask, wait_s=60.0))
    code = (
        "import pathlib, sys\nfrom boonta.programs.wiring.supervision import stacks\n"
        "def stuck_here():\n    print(flush=True)\n    input()\n"
        "with stacks.offered(pathlib.Path(sys.argv[1])):\n    stuck_here()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(run / "tmp")], **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        status = json.loads((run / "status.json").read_text())
        (run / "status.json").write_text(json.dumps({**status, "nodes": nodes(process.pid)}))
        shown = Live(run)
        assert "in stuck_here" in shown.stack("actor/0")
        (run / "logs" / "20260101-000000" / "pids.json").write_text(json.dumps({"monitor": process.pid}))
        assert "in stuck_here" in shown.stack("monitor")  # It is in no status, but the launcher knows it.
        process.communicate(b"\n", timeout=DEADLINE_S)
    assert "isn't known" in shown.stack("nobody")


def test_a_run_that_has_told_nothing_yet(tmp_path):
    folder = run_folders.write_run(tmp_path / "run", metrics=[], end=[])
    shown = Live(folder)
    assert json.loads(shown.status())["age_s"] is None and shown.charts() == ""
    assert "has not recorded the program" in shown.page()


@pytest.mark.skipif(browser.BROWSER is None, reason="there is no Chromium")
def test_in_a_browser_a_click_on_a_node_shows_its_log_its_metrics_and_its_stack(run, tmp_path, monkeypatch):
    monkeypatch.setattr(live.stacks, "ask", functools.partial(live.stacks.ask, wait_s=60.0))
    with stacks.offered(run / "tmp"), served(run) as address, browser.opened(address, tmp_path) as page:
        page.wait_for("document.querySelectorAll('#charts svg').length === 2 && document.querySelector('[data-kind]')")
        assert page.run("document.getElementById('box-actor/0').dataset.kind") == "bad"
        assert page.run("document.getElementById('box-learner').dataset.kind") == "waits"
        shown = page.run("document.body.innerText")
        assert "waiting for data, 2 s" in shown and "actor/0 has been acting for 400 s" in shown and "it fell" in shown
        assert "env steps\n200" in shown and "the actor's" not in shown
        page.click("[id='doing-actor/0']")  # The text on a box lets clicks through.
        page.wait_for("document.getElementById('text').innerText.includes(\"the actor's <words>\")")
        assert page.run("document.getElementById('chosen').innerText") == "actor/0"
        for what, text in {"metrics": "eval_return/actor/0", "stack": "in test_in_a_browser", "log": "<words>"}.items():
            page.click(f"[data-what={what}]")
            page.wait_for(f"document.getElementById('text').innerText.includes('{text}')")
        page.click("#box-learner")
        page.wait_for("document.getElementById('text').innerText.includes('updates reached 3')")
        assert page.run("location.hash") == "#learner"
        page.click("a[href=report]")
        page.wait_for(
            "document.querySelectorAll('img').length > 1 && [...document.images].every(each => each.naturalWidth)"
        )
        assert "config.rate" in page.run("document.body.innerText")
