"""The page of a run, of folders that their runs have left in every way."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import imageio.v3 as imageio
import numpy as np
import pytest

from boonta.programs.experiments.curves import moments
from boonta.programs.experiments.page import html
from boonta.programs.reports import charts
from boonta.programs.tools.report import report
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.recorded import Arrow, Picture, PictureGroup
from boonta.tests.helpers import run_folders
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
PICTURE = Picture(
    (
        PictureGroup("actor", "Actor", ("actor/0", "actor/1")),
        PictureGroup("replay", "Replay", ("replay",)),
        PictureGroup("learner", "Learner", ("learner",)),
    ),
    (Arrow("actor", "replay", "steps"), Arrow("replay", "learner", "batches")),
)
LOG = (
    "WARNING actor/1 was killed by SIGKILL while acting; it starts again in 0.5 s",
    "WARNING monitor: entropy fell <b>",
    "INFO done: updates reached 3",
    "DEBUG ended with code 0",
)


def rows(number: int = 3):
    made = run_folders.rows([i / number for i in range(number)])
    for i, row in enumerate(made):
        row |= {
            "env_steps_per_s": 10.0 + i,
            "share/actor/acting": 0.7,
            "share/actor/waiting_for_room": 0.3 * i / number,
        }
        row |= {
            "loss": 1.0 / (i + 1),
            "rss_mb/learner": 300.0 + i,
            "return": i / number,
            "health/entropy_collapse": 1.0,
        }
        row |= {"share/actor/never": 0.0, "nan": None}
    return made


@pytest.fixture
def run(tmp_path):
    folder = run_folders.write_run(tmp_path / "im<pala>", metrics=rows(), end=LOG)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "picture": dataclasses.asdict(PICTURE)}))
    return folder


def test_the_page_has_all_of_the_run_and_needs_nothing_else(run, capsys):
    frames = np.zeros((2, 8, 8, 3), np.uint8)
    imageio.imwrite(run / "play.gif", frames)
    imageio.imwrite(run / "play 2.mp4", np.zeros((4, 32, 32, 3), np.uint8))
    (run / "explain").mkdir()
    (run / "explain" / "tree.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><title>a search</title></svg>')
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "hidden.png").write_bytes(b"no picture")
    (run / "wandb" / "media").mkdir(parents=True)  # Weights & Biases keeps copies of films.
    imageio.imwrite(run / "wandb" / "media" / "copy.gif", frames)
    (run / "matches.txt").write_text("against uct:10\n  3 won\n")
    evaluated = {"updates": 3, "which": "best", "episodes": 2, "deterministic": True, "seed": 0, "returns": [1.0, 4.0]}
    run_folders.write_lines(run / "evaluations.jsonl", [evaluated])
    report(run)
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    page = (run / "report.html").read_text()
    assert re.findall(r'(?:src|href)="([^"]{0,40})', page)  # Nothing on the page comes from elsewhere.
    assert all(source.startswith("data:") for source in re.findall(r'(?:src|href)="([^"]{0,40})', page))
    assert page.count('src="data:image/gif') == 1 and page.count('<video controls src="data:video/mp4') == 1
    # Two of returns, throughput, time, learning, memory, the program, and the search tree.
    assert page.count("data:image/svg+xml") == 8 and "explain/tree.svg" in page
    for text in (
        "It has ended. done: updates reached 3",
        "env steps 300, updates 3, seconds 30",
        "actor/1 was killed by SIGKILL while acting",
        "entropy fell &lt;b&gt;",
        "<td>best</td>",
        ">2.5</td>",
        "3 won",
        "<td>config.rate</td>",
        "impala.py catch --launch anakin",
        "a" * 40,
        "im&lt;pala&gt;",
    ):
        assert text in page, text
    assert "hidden.png" not in page and "<pala>" not in page


def test_a_run_that_has_only_begun_has_a_page(tmp_path, capsys):
    folder = run_folders.write_run(tmp_path / "run", origin=None, metrics=[], end=[])
    (folder / "metrics.jsonl").unlink()
    report(folder, out=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "There is no row of metrics yet." in page and "data:" not in page


@pytest.mark.parametrize("label", ["level-0.5", "level 1"])
def test_a_group_of_any_label_has_its_chart(tmp_path, label):
    metrics = [{**row, f"share/{label}/acting": 0.7} for row in run_folders.rows([0.0, 1.0])]
    folder = run_folders.write_run(tmp_path / "run", metrics=metrics)
    report(folder)
    page = (folder / "report.html").read_text()
    assert re.search(f'<img src="data:image/svg[^"]*" alt="How {label} spends its time">', page)


def test_pictures_of_any_name_are_on_the_page(run):
    for name in ("a&b.gif", "a%20b.gif", "a:b.gif", 'a"b(c).gif', "ä #1?.gif"):
        imageio.imwrite(run / name, np.zeros((2, 8, 8, 3), np.uint8), extension=".gif")
    report(run)
    page = (run / "report.html").read_text()
    assert page.count('src="data:image/gif') == 5
    assert all(source.startswith("data:") for source in re.findall(r'(?:src|href)="([^"]{0,40})', page))


def test_a_picture_that_is_gone_stays_an_address(tmp_path):
    """A run that goes on deletes old films while its page is made."""
    assert '<img src="gone.gif" alt="a film">' in html("![a film](gone.gif)", [tmp_path])


def test_a_film_that_is_too_large_is_linked(run, monkeypatch):
    monkeypatch.setattr("boonta.programs.experiments.page.LARGEST", 20_000)
    (run / "large.mp4").write_bytes(bytes(20_001))
    report(run)
    assert '<a href="large.mp4">large.mp4, 0 MB</a>' in (run / "report.html").read_text()


def test_the_live_page_says_what_it_does_before_it_loads_what_draws(run, monkeypatch, capsys):
    code = "import sys, boonta.programs.tools.report; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert done.stdout == "False\n"
    monkeypatch.setattr("boonta.programs.reports.live.serve", lambda folder, port: print(folder, port))
    report(run, live=True, port=1)
    assert capsys.readouterr().out == f"loading what draws the page; its address follows within seconds\n{run} 1\n"


def test_charts_are_of_what_a_run_has_measured():
    found = charts.charts(moments(rows()))
    assert set(found) == {"returns_env_steps", "returns_seconds", "throughput", "time_actor", "learning", "memory"}
    shares = found["time_actor"].panels["actor"]
    assert list(shares) == ["acting", "waiting for room"]  # What takes no time is left out.
    assert shares["waiting for room"].y.value.tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert list(found["returns_seconds"].panels["returns"]) == ["evaluation", "training"]
    assert list(found["throughput"].panels) == ["env_steps_per_s"]
    assert "loss" in found["learning"].panels


def test_long_runs_are_drawn_by_means():
    band = charts.charts(moments(rows(4_000)))["time_actor"].panels["actor"]["waiting for room"]
    assert len(band.x) == charts.MOST_POINTS
    assert band.y.value.mean() == pytest.approx(0.3 * 1_999.5 / 4_000)


def test_a_folder_without_a_run_and_a_place_that_cannot_be_written(run, tmp_path):
    with pytest.raises(BadInput, match="holds no run"):
        report(tmp_path / "none")
    with pytest.raises(BadInput, match="can't be written"):
        report(run, out=tmp_path / "none" / "page.html")
