"""The resource table: what each group gets, and which keys and values are refused."""

from __future__ import annotations

import pytest

from boonta.deploy import resources
from boonta.deploy.resources import Resources
from boonta.programs.wiring.run import BadInput


@pytest.mark.parametrize(
    ("topology", "chips_per_host", "hosts"),
    [("1x1", 0, 1), ("2x2", 0, 1), ("2x4", 0, 1), ("2x4", 4, 2), ("4x4", 0, 4), ("16x16", 0, 64), ("2x2x2", 0, 2)],
)
def test_hosts_are_chips_by_chips_per_host(topology, chips_per_host, hosts):
    assert Resources(accelerator="x", topology=topology, chips_per_host=chips_per_host).hosts == hosts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must hold keys and values"),
        ("name: x", "image is empty"),
        ("image: a\nimages: b", "has 'images', which is none of"),
        ("image: a\nname: My_Run", "name is 'My_Run'"),
        ("image: a\nmax_restarts: -1", "max_restarts is -1"),
        ("image: a\nmax_restarts: many", "max_restarts is 'many'; it must be a int"),
        ("image: a\ngroups: [actor]", "groups of .* must have a key for each group"),
        ("image: a\ngroups: {actor: 3}", "groups.actor is 3"),
        ("image: a\ngroups: {actor: {cpus: 3}}", "groups.actor has 'cpus', which is none of"),
        ("image: a\ngroups: {actor: {cpu: lots}}", "groups.actor: cpu is 'lots'"),
        ("image: a\ngroups: {learner: {topology: 2by4}}", "groups.learner: topology is '2by4'"),
        ("image: a\ngroups: {actor: {topology: 2x2}}", "a TPU needs both"),
        ("image: a\ngroups: {learner: {chips_per_host: 3}}", "2x4 has 8 to divide"),
        ("image: a\ngroups: {learner: {gpus: 1}}", "one kind. Learner, unit and inference have a TPU by default"),
        ("image: a\ngroups: {actor: {gpus: -1}}", "gpus is -1; it must be 0 or more"),
        ("image: a\ngroups: {learner: {machines: 2}}", "and 1 with a TPU"),
        ("image: a\ngroups: {actor: {machines: 0}}", "machines is 0; it must be at least 1"),
        ("image: [", "can't be read"),
    ],
)
def test_tables_that_mean_nothing_are_refused(tmp_path, content, message):
    table = tmp_path / "table.yaml"
    table.write_text(content)
    with pytest.raises(BadInput, match=message):
        resources.read(table)
