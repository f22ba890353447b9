"""Comparisons as a command: the page, its pictures, and what is refused."""

from __future__ import annotations

import base64
import csv
import html.parser
import json
import re
import subprocess
import sys
from unittest import mock

import imageio.v3 as imageio
import pytest
from PIL import Image

from boonta.programs.experiments import figures
from boonta.programs.impala import impala
from boonta.programs.tools.compare import compare
from boonta.programs.wiring import launch
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.run_folders import provenance, rows, write_run

pytestmark = pytest.mark.once
LOADING = {"img", "script", "link", "iframe", "object", "embed", "audio", "video", "source"}


class Page(html.parser.HTMLParser):
    """The tags of a page that load something, the cells of its tables, and whether all tags are closed."""

    def __init__(self, text: str):
        super().__init__()
        self.loaded: list[dict[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        if tag in LOADING:
            self.loaded.append(dict(attrs))
        if tag not in ("img", "meta", "link", "br", "hr"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def write_suite(folder, environments=("catch", "grid_world"), seeds=(0, 1)):
    """Runs of two agents in each environment; muzero's returns are higher by one."""
    for env in environments:
        for seed in seeds:
            for i, program in enumerate(("impala", "muzero")):
                origin = provenance(environment=env)
                returns = [i + seed / 10 + step / 100 for step in range(5)]
                name = f"{program}-{env}-{seed}"
                write_run(
                    folder / name, returns, seed=seed, program=program, origin=origin, arguments=[env, "--x", "<b>"]
                )
    (folder / "sweep.json").write_text("{}")
    return folder


def test_a_suite_becomes_a_page(tmp_path, capsys):
    compare((write_suite(tmp_path / "sweep"),), bar=1.1)
    out = tmp_path / "sweep" / "comparison"
    *_, pictures, page = capsys.readouterr().out.splitlines()
    assert page == str(out / "index.html")
    named = pictures.removeprefix("pictures, each as .svg, too: ").split(", ")
    assert set(named) == {path.name for path in out.glob("*.png")} and "curves_env_steps.png" in named
    found = json.loads((out / "results.json").read_text())
    final = found["environments"]["catch"]["muzero"]["final"]
    assert final["value"] == pytest.approx(1.09) and (final["low"], final["high"]) == pytest.approx((1.04, 1.14))
    assert found["reference"]["grid_world"] == pytest.approx([0.04, 1.14])
    assert found["all"]["impala"]["value"] == pytest.approx(0.05 / 1.1)
    ((one, other, improvement),) = found["improvements"]
    assert (one, other) == ("muzero", "impala") and improvement == {"value": 1.0, "low": 1.0, "high": 1.0}
    text = (out / "page.md").read_text()
    assert f"    ./run boonta compare {tmp_path / 'sweep'} --bar 1.1\n" in text
    assert "commit aaaaaaaaaaaa, source 01234567; python 3.10.13, jax 0.6.2; 2 cores of Abacus, 8 GB; started" in text
    assert "    ./run python /somewhere/impala.py catch --x '<b>'\n" in text
    assert "| catch: muzero | 1 of 2 | never | never | never | never |" in text
    with open(out / "curves.csv") as file:
        points = [row for row in csv.DictReader(file) if row["run"] == "muzero-catch-1"]
    assert [float(row["eval_return"]) for row in points] == pytest.approx([1.1, 1.11, 1.12, 1.13, 1.14])
    assert {(row["environment"], row["group"], row["seed"], row["member"]) for row in points} == {
        ("catch", "muzero", "1", "")
    }
    (warning,) = found["warnings"]
    assert "fewer than 5 runs" in warning and f"## Read this first\n\n- {warning}\n\n##" in text


def test_the_page_needs_no_other_file_and_no_server(tmp_path):
    compare((write_suite(tmp_path),))
    page = Page((tmp_path / "comparison" / "index.html").read_text())
    assert len(page.loaded) == 5  # Two pictures of curves, two of the suite, and the profiles.
    for attributes in page.loaded:
        source = attributes["src"] or ""
        assert source.startswith("data:image/svg+xml;base64,")
        drawn = base64.b64decode(source.partition(",")[2]).decode()
        assert all(reference.startswith("#") for reference in re.findall(r'href="([^"]*)"', drawn))
        assert all(reference.startswith("#") for reference in re.findall(r"url\(([^)]*)\)", drawn))
    assert any("--x '<b>'" in text for text in page.text)  # It is text, and no tag.


def test_pictures_say_what_they_are_made_from(tmp_path):
    compare((write_suite(tmp_path),))
    names = ["curves_env_steps", "curves_seconds", "suite_env_steps", "suite_seconds", "profiles"]
    for name in names:
        path = tmp_path / "comparison" / f"{name}.png"
        assert imageio.imread(path).shape[1] >= 800
        with Image.open(path) as picture:
            kept = picture.info["Description"]
        assert "commit aaaaaaaaaaaa" in kept and "/somewhere/muzero.py grid_world" in kept and "Abacus" in kept
        drawn = path.with_suffix(".svg").read_text()
        assert "/somewhere/muzero.py grid_world" in drawn and "8 runs · commit aaaaaaaaaaaa" in drawn


def test_curves_that_do_not_overlap_are_reported_in_the_picture(tmp_path):
    runs = [write_run(tmp_path / str(i), metrics=rows([0.0, 1.0], first=1000.0 * i), seed=i) for i in range(2)]
    compare(tuple(runs))
    drawn = (tmp_path / "comparison" / "curves_env_steps.svg").read_text()
    assert "There is no point at which all runs have a value, for:" in drawn


def test_what_exists_and_is_up_to_date_is_left(tmp_path, capsys):
    folder = write_suite(tmp_path)
    out = folder / "comparison"
    compare((folder,))
    written = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.iterdir()}
    *shown, _ = capsys.readouterr().out.splitlines()
    compare((folder,))
    *again, last = capsys.readouterr().out.splitlines()
    assert again == shown and "muzero" in "".join(shown)
    assert last == f"nothing has changed since it was written: {out / 'index.html'}"
    assert written == {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.iterdir()}
    (out / "profiles.svg").unlink()
    compare((folder,))
    made = {path.name: path.read_bytes() for path in out.iterdir()}
    assert made == {name: content for name, (_, content) in written.items()}  # To the byte.
    write_run(folder / "impala-catch-0", [9.0] * 5)
    compare((folder,))
    assert (out / "page.md").read_bytes() != made["page.md"]


def test_curves_of_one_point_are_drawn_as_points_and_reported(tmp_path, capsys):
    compare(tuple(write_run(tmp_path / str(seed), [0.5 + seed], seed=seed) for seed in range(2)))
    assert "a curve of one point shows no course: 0, 1; to evaluate more often, use" in capsys.readouterr().out
    drawn = (tmp_path / "comparison" / "curves_env_steps.svg").read_text()
    assert "LineCollection" in drawn  # The bar of its interval.


def test_a_sweeps_comparison_is_in_its_folder_also_if_it_is_one_population(tmp_path):
    population = write_run(tmp_path / "sweep" / "impala-catch-2runs")
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    compare((tmp_path / "sweep",))
    assert (tmp_path / "sweep" / "comparison" / "index.html").is_file()
    compare((population,))
    assert (population / "comparison" / "index.html").is_file()


def test_one_run_alone_is_drawn(tmp_path, capsys):
    run = write_run(tmp_path / "run", [0.0, 1.0])
    compare((run,), out=tmp_path / "out")
    assert "a single run has no interval" in capsys.readouterr().out
    text = (tmp_path / "out" / "page.md").read_text()
    assert "| impala | 1 | 1 | – | 1 | 1 | 1 | 200 | 20 |" in text and "## Probability" not in text


def test_the_tables_say_that_their_ends_are_those_of_curves(tmp_path):
    """The last evaluation is of 200 env steps, and the run went on."""
    lines = [*rows([0.0, 1.0]), {**rows([1.0], first=900.0)[0], "eval_version": 2.0}]
    compare((write_run(tmp_path / "run", metrics=lines),))
    text = (tmp_path / "run" / "comparison" / "page.md").read_text()
    assert "| curve ends at env steps (median) | curve ends at seconds (median) |" in text
    assert "| episodes | curve ends at env steps | curve ends at seconds |" in text and "| 20 | 200 | 20 |\n" in text


def test_runs_without_evaluations_are_compared_by_training(tmp_path, capsys):
    training = [{"env_steps": n, "seconds": n, "updates": n, "return": 0.5} for n in (1.0, 2.0)]
    runs = [write_run(tmp_path / name, metrics=training, seed=seed) for seed, name in enumerate("ab")]
    compare(tuple(runs))
    assert json.loads((tmp_path / "comparison" / "results.json").read_text())["metric"] == "return"
    assert (
        "returns are those of training, in which agents explore, since a has no eval_return" in capsys.readouterr().out
    )
    with pytest.raises(BadInput, match="a has no elo yet"):
        compare(tuple(runs), metric="elo")


def test_given_references_make_the_scores(tmp_path):
    folder = write_suite(tmp_path)
    compare((folder,), reference=("catch=-1,1", "grid_world=0,2"))
    found = json.loads((folder / "comparison" / "results.json").read_text())
    assert found["reference"] == {"catch": [-1, 1], "grid_world": [0, 2]}
    assert (
        "given on the command line: catch -1 to 1, grid\\_world 0 to 2."
        in (folder / "comparison" / "page.md").read_text()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["pong=0,1"], "--reference 'pong=0,1' is of none of the environments: catch, grid_world"),
        (["catch"], "--reference 'catch' is not ENVIRONMENT=LOW,HIGH"),
        (["catch=0"], "--reference 'catch=0' is not ENVIRONMENT=LOW,HIGH"),
        (["catch=1,0"], "must have finite numbers, the lower one first"),
        (["catch=0,nan"], "must have finite numbers, the lower one first"),
        (["catch=0,1"], "--reference is given for catch, and missing for grid_world"),
    ],
)
def test_references_that_cannot_work_are_refused(tmp_path, given, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        compare((write_suite(tmp_path),), reference=tuple(given))


def test_runs_of_different_environments_are_refused(tmp_path):
    folder = write_suite(tmp_path)
    with pytest.raises(BadInput, match="different environments"):
        compare((folder, write_run(tmp_path / "apart", origin=provenance(environment="pong"))))
    assert not (folder / "comparison").exists()


def test_a_page_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=re.escape(f"--out {tmp_path / 'file' / 'page'} can't be written")):
        compare((write_run(tmp_path / "run"),), out=tmp_path / "file" / "page")


@pytest.mark.parametrize("name", ["results.json", "index.html", "curves_seconds.svg"])
def test_files_that_no_comparison_has_written_are_kept(tmp_path, name):
    run = write_run(tmp_path / "run")
    own = tmp_path / "own"
    own.mkdir()
    (own / "notes.txt").write_text("mine")
    (own / name).write_text('{"key": 1}')
    with pytest.raises(BadInput, match=re.escape(f"--out {own} has {name}, and no results.json of a comparison")):
        compare((run,), out=own)
    assert {path.name: path.read_text() for path in own.iterdir()} == {"notes.txt": "mine", name: '{"key": 1}'}
    (own / name).unlink()
    compare((run,), out=own)
    write_run(tmp_path / "run", [9.0] * 5)
    compare((run,), out=own)  # It is a comparison's folder now.
    assert "| 9 |" in (own / "page.md").read_text()


def test_a_comparison_that_was_cut_off_is_made_anew_in_its_folder(tmp_path, monkeypatch):
    run, own = write_run(tmp_path / "run"), tmp_path / "own"
    monkeypatch.setattr(figures, "draw", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        compare((run,), out=own)
    monkeypatch.undo()
    compare((run,), out=own)
    assert (own / "index.html").exists()


def test_a_page_is_not_up_to_date_where_there_is_another_checkpoint(tmp_path, capsys):
    run = write_run(tmp_path / "run")
    compare((run,))
    (run / "checkpoints" / "best" / "3").mkdir(parents=True)
    capsys.readouterr()
    compare((run,))
    assert "nothing has changed" not in capsys.readouterr().out


def test_nothing_to_compare_is_refused():
    with pytest.raises(BadInput, match="there is no run: give"):
        compare(())


@pytest.mark.unoptimised
def test_two_real_runs_are_compared_from_the_command_line(tmp_path):
    flags = ["--launch", "anakin", "--placement.learning=1", "--evaluation.every-updates=20", "--stop.updates=60"]
    flags += ["--config.batch-size=4", "--config.unroll-length=4", "--config.torso.widths", "8"]
    for seed in ("0", "1"):
        with pytest.raises(SystemExit) as ended:
            launch.main(impala, ["catch", *flags, "--seed", seed, "--workdir", str(tmp_path / seed)])
        assert ended.value.code == 0
    command = [sys.executable, "-m", "boonta", "compare", str(tmp_path / "0"), str(tmp_path / "1")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stdout.splitlines() if line.startswith("warning")]
    few, *others = warnings
    assert few.endswith("too narrow: 2 of impala in catch")
    assert all("the tree was dirty" in warning for warning in others)  # Of this repository, while it is worked on.
    found = json.loads((tmp_path / "comparison" / "results.json").read_text())
    runs = found["environments"]["catch"]["impala"]["runs"]
    assert [run["seed"] for run in runs] == [0, 1] and all(run["episodes"] == 50 for run in runs)
    assert all(-1 <= run["value"] <= 1 and run["env_steps"] == 4 * (1 + 60 * 4) for run in runs)
    text = (tmp_path / "comparison" / "page.md").read_text()
    assert "./run python programs/impala.py catch --launch anakin" in text and "numpy" in text
