"""What a population's members have shown in an earlier part of the run."""

from __future__ import annotations

from boonta.nodes import metrics
from boonta.nodes.fused.evaluations import Evaluations
from boonta.nodes.watch.health import Health


def test_each_member_gets_its_own_rows_of_one_pass_over_all(tmp_path, monkeypatch):
    rows = [{"member": float(i), "updates": n, "eval_return": 10.0 * i + n} for n in (1.0, 2.0) for i in range(3)]
    passes, fed = [], []
    monkeypatch.setattr(metrics, "each", lambda *file: passes.append(file) or iter([*rows, {"updates": 3.0}]))
    monkeypatch.setattr(Health, "feed", lambda self, row: fed.append((self, row["return"])) or [])
    evaluations = Evaluations.__new__(Evaluations)
    evaluations._health = [Health() for _ in range(3)]
    evaluations._remember(tmp_path)
    assert passes == [(tmp_path, metrics.MEMBERS)]
    for i, health in enumerate(evaluations._health):
        assert [value for each, value in fed if each is health] == [10.0 * i + 1.0, 10.0 * i + 2.0]
