"""The text of a Slurm batch script: what its first machine does, and what each place runs."""

from __future__ import annotations

import os
import pathlib
import shlex

from boonta.deploy import core
from boonta.programs.wiring.joining import FILE

WARN_S = 120  # Time before the limit at which the tasks are asked to save and end.
SAVE_S = 100  # Of this, the time until the job goes back into the queue, even if nodes still save.
AGAIN_S = 10  # Time from the death of a node without which the program goes on until it starts again.

# Once one task has ended, srun gives the others `core.END_S`. So that of a node without which the program goes on stays
# until the program ends, and has the code 0: those of the others say how the program has ended. Where the monitor
# was killed, and has left its file, srun ends the wait.
NODE_COMMAND = """node=(@RUN@ python -m boonta.deploy.node "$0" --label "$label" --index "$index" \\
            --hosts "$BOONTA_HOSTS" --base-port "$BOONTA_PORT" @TUNNEL@)
        [ "$again" ] || { "${node[@]}" -- "$@"; exit; }
        reach=()
        for ((s = 0; s < @REACH@; s++)); do [ -e "$BOONTA_SERVERS" ] && break; sleep 1; done &
        begins=$!
        until "${node[@]}" "${reach[@]}" -- "$@"; do
            code=$?
            [ "$code" -ne 2 ] || [ "${reach[*]}" ] || exit 2 # It has run before, so its input is not bad.
            [ "$asked" ] || sleep @AGAIN@
            [ "$asked" ] || wait "$begins" # A program that has not begun is not over.
            [ -z "$asked" ] && [ -e "$BOONTA_SERVERS" ] || exit 0
            echo "$label $index died with code $code, and starts again"
            reach=(--reach-s @AGAIN@) # The servers are there, or the program has just ended.
        done
        while [ -z "$asked" ] && [ -e "$BOONTA_SERVERS" ]; do sleep 1; done"""

# scancel signals all tasks; srun would kill the others at once when the first one ends.
BODY = """set -u
cd @ROOT@ || exit 2
export PYTHONPATH=@HERE@${PYTHONPATH:+:$PYTHONPATH} # Modules of your own are found where this script was made.
@SETTING@
# An array's last task has the array's own number, by which all of its tasks would be meant.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}
mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
SLURM_HOSTFILE=$(mktemp)
export SLURM_HOSTFILE
hurrying=
trap 'rm -f "$SLURM_HOSTFILE"; [ -z "$hurrying" ] || kill "$hurrying" 2>/dev/null' EXIT
for t in "${!nodes[@]}"; do echo "${machines[t % ${#machines[@]}]}"; done >"$SLURM_HOSTFILE"
BOONTA_NODES=$(printf '%s\\n' "${nodes[@]}")
BOONTA_HOSTS=$(IFS=,; echo "${machines[*]}")
BOONTA_SERVERS=$workdir/@SERVERS@ # It is there until the program ends.
BOONTA_PORT=$((@PORT@ + SLURM_JOB_ID % 100 * 100)) # Jobs that share a machine need different ports.
BOONTA_JOB=$job
export BOONTA_NODES BOONTA_HOSTS BOONTA_SERVERS BOONTA_PORT BOONTA_JOB

reason=
ask_to_end() {
    [ -z "$reason" ] || return # Only the first reason counts.
    reason=$1
    scancel --signal=TERM "$job"
}
hurry() { # A job that reaches its limit does not go back into the queue.
    for ((s = 0; s < @SAVE@; s++)); do sleep 1; done
    scontrol requeue "$job"
}
trap '[ "$reason" ] || { ask_to_end "time is up"; hurry & hurrying=$!; }' USR1
trap 'ask_to_end "cancelled or preempted"' TERM
trap 'ask_to_end "bad input"' USR2

srun --ntasks="${#nodes[@]}" --distribution=arbitrary --overcommit --kill-on-bad-exit=0 --wait=@END@ --label \\
    bash -c '
        asked= begins=
        trap asked=1 TERM # The node gets the signal, too.
        leave() {
            code=$?
            [ -z "$begins" ] || kill "$begins" 2>/dev/null
            [ "$code" -ne 2 ] || scancel --batch --signal=USR2 "$BOONTA_JOB" # The others would wait for it.
        }
        trap leave EXIT
        read -r label index again < <(sed -n "$((SLURM_PROCID + 1))p" <<<"$BOONTA_NODES")
        @COMMAND@' \\
    "${words[@]}" &
step=$!
while kill -0 "$step" 2>/dev/null; do
    wait "$step" # A signal ends the wait, not the step.
done
wait "$step" # This has its code, also if it ended just after a signal.
code=$?

echo "turn ended with code $code${reason:+: $reason}"
[ "$code" -ne 0 ] || exit 0
[ "$code" -ne 2 ] && [ "$reason" != "bad input" ] || exit 2 # Bad input stays bad.
if [ "$reason" != "time is up" ]; then
    [ -z "$reason" ] || exit "$code" # Slurm itself decides whether to requeue the job.
    counter=$workdir/slurm-$SLURM_JOB_ID.failures
    failures=$(($(cat "$counter" 2>/dev/null || echo 0) + 1))
    [ "$failures" -le @RESTARTS@ ] || exit "$code"
    mkdir -p "$workdir" && echo "$failures" >"$counter"
fi
[ -z "$hurrying" ] || kill "$hurrying" 2>/dev/null || exit 0 # It has requeued the job already.
scontrol requeue "$job"
"""


def body(root: pathlib.Path, restarts: int, command: str, setting: str) -> str:
    """What follows the script's header.

    Args:
      root: the repository's path, on all machines.
      restarts: how often the job goes back into the queue after a failure.
      command: what each place runs.
      setting: the commands that set `nodes`, `words` and `workdir`.
    """
    script = BODY.replace("@ROOT@", shlex.quote(str(root))).replace("@SERVERS@", FILE)
    script = script.replace("@HERE@", shlex.quote(os.getcwd()))
    script = script.replace("@RESTARTS@", str(restarts)).replace("@END@", str(int(core.END_S)))
    script = script.replace("@PORT@", str(core.BASE_PORT)).replace("@SAVE@", str(SAVE_S)).replace("@SETTING@", setting)
    return script.replace("@COMMAND@", command).rstrip()  # Last: flags may have any text.


def node_command(run: str, tunnel: bool) -> str:
    """The command of a place that runs a node of its own.

    Args:
      run: what runs Python there.
      tunnel: whether the tables are reached through a tunnel.
    """
    command = NODE_COMMAND.replace("@RUN@", run).replace(" @TUNNEL@", " --tunnel" if tunnel else "")
    return command.replace("@AGAIN@", str(AGAIN_S)).replace("@REACH@", str(int(core.REACH_S)))
