"""A real Slurm cluster of two namespaces as machines, with a controller, a daemon on each machine, and munge."""

from __future__ import annotations

import os
import pathlib
import re
import secrets
import shutil
import subprocess
import time

from boonta.tests.helpers import namespaces

MACHINES = ("slurm0", "slurm1")
START_S = 60.0
CONFIG = """ClusterName=boonta
SlurmctldHost=slurm0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=20
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=slurm[0-1] CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Returns the reason why there can't be a cluster on this machine, or an empty string if there can."""
    absent = [name for name in ("slurmctld", "slurmd", "srun", "munged") if not shutil.which(name)]
    installed = f"{', '.join(absent)} not installed: Debian's slurm-wlm and munge have them" if absent else ""
    return namespaces.missing() or installed


class Slurm:
    """A context manager that starts the cluster.

    Args:
      folder: folder for the daemons' files.
      cpus: the number of CPUs that each machine reports.
    """

    def __init__(self, folder: pathlib.Path, cpus: int = 4):
        self.folder = folder
        self._config = folder / "slurm.conf"
        self._cpus = cpus
        self._hosts = namespaces.Hosts(*((name,) for name in MACHINES))
        self._daemons: list[subprocess.Popen] = []

    def __enter__(self) -> Slurm:
        for name in ("munge", "state"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self._config.write_text(CONFIG.format(folder=self.folder, cpus=self._cpus))
        self._hosts.__enter__()
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        self._start("slurm0", "munged", *self._munge())
        self._await("munge", lambda: (self.folder / "munge" / "socket").exists())
        self._start("slurm0", "slurmctld", "-D", "-i", "-f", str(self._config))
        for name in MACHINES:
            self._start(name, "slurmd", "-D", "-N", name, "-f", str(self._config))
        self._await("both machines", lambda: "idle 2" in self.do("sinfo", "-h", "-o", "%t %D"))

    def __exit__(self, *error: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._hosts.__exit__()

    def do(self, *command: str, cwd: pathlib.Path | None = None) -> str:
        """Runs a command on the first machine and returns its output."""
        done = subprocess.run(
            self._hosts.on("slurm0", *command), env=self._environment(), capture_output=True, text=True, cwd=cwd
        )
        return done.stdout + done.stderr

    def submit(self, script: pathlib.Path) -> str:
        """Submits a script; returns the number of the job."""
        message = self.do("sbatch", str(script), cwd=self.folder)
        (number,) = re.findall(r"Submitted batch job (\d+)", message) or [message]
        return number

    def job(self, number: str) -> dict[str, str]:
        """Returns Slurm's description of a job."""
        return dict(re.findall(r"(\w+)=(\S*)", self.do("scontrol", "show", "job", number)))

    def logs(self) -> str:
        """Returns the ends of all log files."""
        return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def _munge(self) -> tuple[str, ...]:
        place = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return ("--foreground", "--force", *(f"--{option}={place / name}" for option, name in files.items()))

    def _start(self, machine: str, *command: str) -> None:
        with open(self.folder / f"{command[0]}-{machine}-out.log", "w") as log:
            words = self._hosts.on(machine, *command)
            self._daemons.append(subprocess.Popen(words, env=self._environment(), stdout=log, stderr=log))

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self._config), "PYTHONUNBUFFERED": "1"}

    def _await(self, what: str, there) -> None:
        end = time.monotonic() + START_S
        while not there():
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come in {START_S:.0f} s: {self.logs()}")
            time.sleep(0.2)
