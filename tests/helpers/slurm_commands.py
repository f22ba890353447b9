"""Commands that stand for Slurm's, and for the repository: where nodes run, and what the script asks for."""

from __future__ import annotations

import os
import pathlib
import subprocess

from boonta.deploy import slurm

LIGHT = pathlib.Path(__file__).with_name("light_program.py")

SRUN = """#!/bin/bash
printf %s "$PYTHONPATH" >"${0%/*}/path"
# Runs the tasks one after the other, and prints where Slurm would run each.
options=()
while [[ $1 == --* ]]; do options+=("$1"); shift; done
echo "srun ${options[*]}" >>"$CALLS"
export BATCH=$PPID
mapfile -t where <"$SLURM_HOSTFILE"
for t in "${!where[@]}"; do echo "on ${where[t]}: $(SLURM_PROCID=$t "$@")" >>"$CALLS"; done
if [ -n "$SLOW" ]; then
    touch "$CALLS.running"
    for ((i = 0; i < 600; i++)); do [ -e "$CALLS.$SLOW" ] && break; sleep 0.1; done
fi
exit "$CODE"
"""
# It also dies with the code that a line of a file says, each once, when the program begins or is over; an actor that
# doesn't has done its work, and the program is soon over.
RUN = """#!/bin/bash
for word in "$@"; do printf "[%s]" "$word"; done
read -r code then < <(cat "${0%/*}/dies-$6" 2>/dev/null) && sed -i 1d "${0%/*}/dies-$6"
[ "$then" = begins ] && touch "$BOONTA_SERVERS"
[ "$then" = ends ] && rm "$BOONTA_SERVERS"
if [ "$6" = actor ] && [ -z "$code" ] && [ -e "$BOONTA_SERVERS" ]; then
    (sleep 1; echo "the program is over" >>"$CALLS"; rm "$BOONTA_SERVERS") >/dev/null 2>&1 &
fi
exit "${code:-0}"
"""
SCONTROL = """#!/bin/bash
if [ "$2" = hostnames ]; then printf 'n1\\nn2\\n'; else echo "scontrol $*" >>"$CALLS"; touch "$CALLS.requeued"; fi
"""
SCANCEL = """#!/bin/bash
echo "scancel $*" >>"$CALLS"
if [ "$1" = --batch ]; then kill -USR2 "$BATCH"; else touch "$CALLS.cancelled"; fi
"""


class Cluster:
    """A folder of commands that stand for Slurm's, and for the repository."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.calls = folder, folder / "calls"
        for name, text in {"srun": SRUN, "run": RUN, "scontrol": SCONTROL, "scancel": SCANCEL}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def start(
        self,
        code: int = 0,
        slow: str = "",
        flags=("--actors", "2"),
        program=LIGHT,
        task: str = "",
        run: str = "./run",
    ) -> subprocess.Popen:
        job = slurm.Job(program, nodes=2, tasks_per_node=3, max_restarts=1, root=self.folder, run=run)
        script = self.folder / "job.sbatch"
        script.write_text(slurm.render(job, [*flags, "--workdir", str(self.folder / "a run")]))
        own = {"CALLS": self.calls, "CODE": code, "SLURM_JOB_ID": 4711, "SLURM_JOB_NODELIST": "n[1-2]"}
        own |= {"SLOW": slow} if slow else {}
        own |= {"SLURM_ARRAY_JOB_ID": 4711, "SLURM_ARRAY_TASK_ID": task} if task else {}
        environment = {
            **os.environ,
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            **{k: str(v) for k, v in own.items()},
        }
        return subprocess.Popen(["bash", str(script)], env=environment)

    def lines(self) -> list[str]:
        return self.calls.read_text().splitlines()
