"""Nobody outside a program of processes can see its servers, connect to them, or read its folder."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import psutil
import pytest

from boonta.nodes import metrics
from boonta.programs.wiring.machine import network
from boonta.tests.helpers import intruder
from boonta.tests.helpers.archives import write_by_chance
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.namespaces import NOBODY, can_unshare
from boonta.tests.helpers.running import Running

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user, and to enter the network"),
    pytest.mark.skipif(not can_unshare(), reason="this machine refuses namespaces"),
]
LISTENING = "0A"  # In /proc/net/tcp.
MLP = ("--config.torso.widths", "8")
DATA = "DATA"  # It stands for the folder of an archive.
# The first has all kinds of servers: monitor, variables, inference and replay.
PROGRAMS = [
    ("tests/helpers/inference_program.py",),
    ("tests/helpers/inference_program.py", "--launch", "local_mt"),
    ("tests/helpers/inference_program.py", "--launch", "serial"),
    ("programs/impala.py", "catch", *MLP),
    ("programs/impala_atari.py", "--num-envs", "4", "--config.batch-size", "2", "--config.queue-size", "4"),
    ("programs/muzero.py", "catch", *MLP),
    ("programs/reanalyze.py", "catch", *MLP),
    ("programs/central_inference.py", "catch", "--actors", "2", *MLP),
    ("programs/self_play.py", "open_spiel/tic_tac_toe", *MLP),
    ("programs/unplugged.py", "--data", DATA),
]
SERVERLESS = [
    ("programs/impala.py", "catch", "--launch", "sebulba", *MLP),
    ("programs/impala.py", "catch", "--launch", "anakin", *MLP),
    ("programs/population.py", "catch", "--seeds", "2", *MLP),
    ("programs/meta_gradient.py", "catch", *MLP),
]


@pytest.fixture
def public() -> Iterator[pathlib.Path]:
    """A folder with a short path that other users can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def is_at_work(workdir: pathlib.Path) -> bool:
    return (workdir / metrics.FILE).exists() and any(row.get("updates") for row in metrics.read(workdir))


def ports(pid: int | str) -> dict[str, int]:
    """The ports on which anything listens in a process's network, by the inodes of the sockets."""
    rows = [
        line.split()
        for file in ("tcp", "tcp6")
        for line in pathlib.Path(f"/proc/{pid}/net/{file}").read_text().splitlines()[1:]
    ]
    return {row[9]: int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENING}


def unix_sockets(pid: int) -> dict[str, str]:
    """The paths of the Unix sockets in a process's network that have one, by their inodes."""
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    return {row[6]: row[7] for row in rows if len(row) > 7}


def inodes(processes: list[psutil.Process]) -> set[str]:
    """The sockets that processes have."""
    found = set()
    for process in processes:
        for file in pathlib.Path(f"/proc/{process.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # It has been closed meanwhile.
                found.add(os.readlink(file).removeprefix("socket:[").rstrip("]"))
    return found


def reached(uid: int = intruder.MAY_DO_ANYTHING, within: int | None = None, **what: list) -> list[str]:
    """What a user reaches, from here or from a process's network; see `intruder.reached`."""
    enter = [] if within is None else ["nsenter", f"--net=/proc/{within}/ns/net"]
    asked = {"addresses": [], "sockets": [], "files": [], **what, "uid": uid}
    done = subprocess.run(
        [*enter, sys.executable, "-I", "-S", intruder.__file__],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return json.loads(done.stdout)


def own_addresses() -> list[str]:
    """The addresses of this machine, in the network that this process is in."""
    kinds = (socket.AF_INET, socket.AF_INET6)
    return sorted({each.address for cards in psutil.net_if_addrs().values() for each in cards if each.family in kinds})


def require_no_other_obstacles(public: pathlib.Path) -> None:
    """Asserts that the other user reaches what is beside the run."""
    path = str(public / "open")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as file:
        file.bind(path)
        os.chmod(path, 0o777)
        file.listen()
        host, port = server.getsockname()
        found = reached(NOBODY, addresses=[(host, port)], sockets=[path], files=[str(public)])
        assert found == [f"{host}:{port}", path, str(public)]


@pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs util-linux")
@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[pytest.mark.slow] if i else []) for i, each in enumerate(PROGRAMS)], ids=str
)
def test_nobody_outside_reaches_a_program(public, tmp_path, command):
    if DATA in command:
        write_by_chance(tmp_path / "data")
    program, *flags = (str(tmp_path / "data") if word == DATA else word for word in command)
    with Running(public, program, *flags) as running:
        running.wait_until(lambda: is_at_work(running.workdir), "at work")
        processes = [running.process.pid, *running.pids.values()]
        owned = inodes([psutil.Process(pid) for pid in processes])
        listening = {inode: port for inode, port in ports(running.process.pid).items() if inode in owned}
        assert listening and not owned & set(ports("self"))
        assert {os.readlink(f"/proc/{pid}/ns/net") for pid in processes}.isdisjoint([os.readlink("/proc/self/ns/net")])

        within = [("127.0.0.1", port) for port in listening.values()]
        assert len(reached(within=running.process.pid, addresses=within)) == len(within)  # They do listen there.
        free = set(listening.values()) - set(ports("self").values())  # Another program may listen on the same number.
        outside = [(address, port) for address in own_addresses() for port in free]
        assert not reached(addresses=outside) and not reached(NOBODY, addresses=outside)

        sockets = sorted({path for inode, path in unix_sockets(running.process.pid).items() if inode in owned})
        launched = "serial" not in flags  # Else nodes call each other's methods, and have no logs.
        assert {pathlib.Path(path).name for path in sockets} >= ({"monitor", "variables"} if launched else set())
        assert not [path for path in sockets if path.startswith("@")]  # Such a one has no rights.
        folder = running.workdir
        names = ("", "config.json", "checkpoints", *(["logs"] if launched else []))
        files = [str(folder / name) for name in names]
        assert reached(sockets=sockets, files=files) == [*sockets, *files]
        assert not reached(NOBODY, sockets=sockets, files=files)
        require_no_other_obstacles(public)
        assert running.end().startswith(f"network: {network.PRIVATE}\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", SERVERLESS, ids=str)
def test_a_program_of_one_process_listens_nowhere(public, command):
    program, *flags = command
    with Running(public, program, *flags) as running:
        running.wait_until(lambda: is_at_work(running.workdir), "at work")
        processes = [psutil.Process(running.process.pid), *psutil.Process(running.process.pid).children(recursive=True)]
        owned = inodes(processes)
        assert len(processes) > 1  # The guard, and the program.
        assert not owned & set(ports("self")) and not owned & set(unix_sockets(running.process.pid))
        assert not reached(NOBODY, files=[str(running.workdir), str(running.workdir / "config.json")])
        running.end()
