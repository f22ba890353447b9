"""The notebooks run, from their first cell to their last."""

from __future__ import annotations

import ast
import json
import pathlib
import shutil
import tempfile

import jax
import matplotlib
import pytest

pytestmark = pytest.mark.once
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    matplotlib.use("agg")
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)


def run(notebook: pathlib.Path, optimised: int | None = None) -> dict[str, object]:
    """The names that a notebook's cells have defined; the value of a cell's last expression is `_`.

    Only the first `optimised` cells of code are compiled with XLA's optimisations, all by default.
    """
    names: dict[str, object] = {"__name__": "notebook"}
    cells = json.loads(notebook.read_text())["cells"]
    for i, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
        jax.config.update("jax_disable_most_optimizations", optimised is not None and i >= optimised)
        body = ast.parse("".join(cell["source"]), str(notebook)).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), str(notebook), "exec"), names)
        if isinstance(last, ast.Expr):
            names["_"] = eval(compile(ast.Expression(last.value), str(notebook), "eval"), names)
    return names


def test_there_are_two_without_stale_outputs():
    assert [notebook.stem for notebook in NOTEBOOKS] == ["catch", "search_tree"]
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text())["cells"]
        assert not any(cell.get("outputs") for cell in cells)


def test_catch_is_learned():
    names = run(FOLDER / "catch.ipynb")
    assert names["exit_code"] == 0
    returns = [row["return"] for row in names["rows"] if row.get("return") is not None]  # type: ignore[attr-defined]
    assert returns[-1] > 0.5 and names["total"] == 1.0


def test_searches_of_all_sizes_are_shown():
    """Training needs the optimisations: without, XLA takes a gradient through a small search for NaN."""
    names = run(FOLDER / "search_tree.ipynb", optimised=1)
    visits = {n: int(planned.tree.node_visits[0]) for n, (planned, _) in names["found"].items()}  # type: ignore[attr-defined]
    assert visits == {2: 3, 8: 9, 32: 33}
    assert names["picture"].stat().st_size > 1_000  # type: ignore[attr-defined]
