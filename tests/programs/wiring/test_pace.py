"""How often params are published and fetched: flags, records and folder names as if the program took each by itself."""

from __future__ import annotations

import json
import pathlib

import pytest

from boonta.programs.central_inference import central_inference
from boonta.programs.ddpg import ddpg
from boonta.programs.dqn import dqn
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.command_line.arguments import origin_of, parse
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.programs.wiring.trained import call_of

pytestmark = pytest.mark.once
OWN = ("updates_per_step", "publish_every", "refresh_every")


def claim(function, words):
    run, settings = parse(function, words)
    claim_workdir(function.__name__, run, settings, origin_of(function, words, function(run=run, **settings))).close()
    return run, settings


def test_a_run_records_it_by_flag_and_goes_on_from_such_a_record(tmp_path):
    words = ["catch", "--workdir", str(tmp_path / "run"), "--publish-every", "5"]
    _, settings = claim(dqn, words)
    assert settings["pace"] == Pace(publish_every=5)
    recorded = read_config(tmp_path / "run").settings
    assert {name: recorded[name] for name in OWN} == {**dict.fromkeys(OWN), "publish_every": 5}
    assert "pace" not in recorded
    claim(dqn, words)
    with pytest.raises(BadInput, match="holds a run with other settings: publish_every was 5, is 6. Give them"):
        claim(dqn, [*words[:-1], "6"])


def test_a_runs_folder_says_what_is_not_as_usual(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, _ = parse(dqn, ["catch", "--publish-every", "5", "--refresh-every", "3"])
    assert pathlib.Path(run.workdir).name == "dqn-catch-publish-every5-refresh-every3"


@pytest.mark.parametrize(("left_out", "found"), [((), Pace(2, 5, None)), (OWN, Pace(2, None, None))])
def test_tools_read_it_from_a_record_also_from_one_that_lacks_it(tmp_path, left_out, found):
    """DDPG once had none of these flags; here what the record lacks is the command line's."""
    claim(ddpg, ["gymnasium/Pendulum-v1", "--workdir", str(tmp_path), "--updates-per-step", "2"])
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["settings"]["publish_every"] = 5
    for name in left_out:
        del config["settings"][name]
    path.write_text(json.dumps(config))
    assert call_of(tmp_path)[2]["pace"] == found


def test_nodes_get_it_and_refuse_what_can_not_be(tmp_path):
    words = ["catch", "--workdir", str(tmp_path), "--updates-per-step", "2", "--refresh-every", "3"]
    run, settings = parse(dqn, words)
    learner, actor, _ = dqn(run=run, **settings).groups
    assert learner.settings == {"updates_per_step": 2} and actor.settings == {"refresh_every": 3}
    run, settings = parse(central_inference, words)
    with pytest.raises(ValueError, match="actor/0: refresh_every is 3, but an inference node acts for it"):
        check_nodes(central_inference(run=run, **settings))
