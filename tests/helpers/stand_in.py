"""Stands for a program in tests of sweeps: it leaves what a run leaves in its folder, and starts at once.

The flag `--act` says how it ends: "done", "fails", "refuses", "fails-once", "collapses", "killed", or "waits", which
goes on until the folder has a file named "go", or until SIGTERM, after which it saves and ends. Each start adds a line
to "starts". It learns a return of -(x - 0.3)^2; with "--act bad" that is lower by 9, and it waits after its evaluation.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pathlib
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--act", default="done")
parser.add_argument("--x", type=float, default=0.3)
parser.add_argument("--seed", type=int)
parser.add_argument("--stop.updates")
parser.add_argument("--workdir", type=pathlib.Path)
given = parser.parse_args()
folder: pathlib.Path = given.workdir


def log(text: str) -> None:
    with open(folder / "run.log", "a") as file:
        file.write(f"2026-01-01T00:00:00+0000 {text}\n")


def end(code: int) -> None:
    log(f"DEBUG ended with code {code}")
    sys.exit(code)


asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
folder.mkdir(parents=True, exist_ok=True)
held = open(folder / ".lock", "w")  # noqa: SIM115  # Until the process ends.
fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
with open(folder / "starts", "a") as starts:
    starts.write(f"{os.getpid()} {sorted(os.sched_getaffinity(0))}\n")
if given.act == "refuses":
    print("error: --act can't be", file=sys.stderr)
    sys.exit(2)
config = {"program": "stand_in", "seed": given.seed, "settings": {}, "arguments": sys.argv[1:]}
(folder / "config.json").write_text(json.dumps(config))
log("DEBUG started: --launch none")
row = {"env_steps": 10, "eval_version": 1, "eval_return": -((given.x - 0.3) ** 2) - 9 * (given.act == "bad")}
(folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
if given.act in ("waits", "bad"):
    while not asked and not (folder / "go").exists():
        time.sleep(0.02)
    if asked:
        (folder / "saved").touch()
        end(143)
if given.act == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if given.act == "fails" or (given.act == "fails-once" and len((folder / "starts").read_text().splitlines()) == 1):
    log("ERROR learner failed while updating: no luck")
    end(1)
if given.act == "collapses":
    end(3)
log("INFO done: updates reached 5")
end(0)
