"""Who can reach a program's servers: nobody outside, or nobody outside this machine, or it refuses to start."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from boonta.programs.wiring import launch
from boonta.programs.wiring.interpreters import local
from boonta.programs.wiring.machine import network
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.namespaces import NOBODY, can_unshare

FILE = network.__file__
BOUND = """
import json, os, socket
found = []
for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"), (socket.AF_INET, "127.0.0.1")):
    with socket.socket(family) as server:
        server.bind((address, 0))
        server.listen()
        with socket.create_connection(("localhost", server.getsockname()[1])):
            found.append(server.getsockname()[0])
print(json.dumps({"got": os.environ["BOONTA_NETWORK"], "net": os.readlink("/proc/self/ns/net"), "bound": found}))
"""


def entered(*python: str, **options) -> dict:
    """What a command of Python's finds after this file."""
    python = python or (sys.executable,)
    command = [*python, "-I", "-S", options.pop("file", FILE), python[0], "-c", BOUND]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=DEADLINE_S, **options).stdout)


@pytest.mark.skipif(not can_unshare(), reason="this machine refuses namespaces")
def test_a_process_gets_a_network_of_its_own():
    found = entered()
    assert found["got"] == network.PRIVATE and found["net"] != os.readlink("/proc/self/ns/net")
    assert found["bound"] == ["0.0.0.0", "::", "127.0.0.1"]


@pytest.mark.skipif(os.geteuid() != 0 or not can_unshare(user=NOBODY), reason="needs root, and users with namespaces")
def test_it_takes_no_rights():
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if system is None:
        pytest.skip("other users need a Python that they can read")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        file = shutil.copy(FILE, folder)
        os.chmod(file, 0o644)
        found = entered(system, file=file, user=NOBODY, group=NOBODY, cwd="/")
    assert found["got"] == network.PRIVATE and found["net"] != os.readlink("/proc/self/ns/net")


@pytest.mark.skipif(os.geteuid() != 0 or not can_unshare(user=NOBODY), reason="needs root, and users with namespaces")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_a_process_enters_the_network_of_another_one_of_its_user(user):
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if system is None:
        pytest.skip("other users need a Python that they can read")
    look = "import os, sys; print(os.getpid(), os.readlink('/proc/self/ns/net'), flush=True); sys.stdin.read()"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        file = shutil.copy(FILE, folder)
        os.chmod(file, 0o644)
        own = {"text": True, "user": user, "group": user, "cwd": "/"}
        start = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **own}
        with subprocess.Popen([system, "-I", "-S", file, system, "-c", look], **start) as other:
            pid, net = other.stdout.readline().split()
            command = [system, "-I", "-S", file, network.OF, pid, system, "-c", look]
            with subprocess.Popen(command, **start) as joining:
                joined, _ = joining.communicate("", timeout=DEADLINE_S)
            other.communicate("", timeout=DEADLINE_S)
        gone = subprocess.run(command, stderr=subprocess.PIPE, **own)
    assert joined.split()[1] == net != os.readlink("/proc/self/ns/net")
    assert gone.returncode == 1 and f"error: the network of process {pid} can't be entered: " in gone.stderr


@pytest.fixture
def no_namespace(tmp_path) -> str:
    """This file as it is on a machine that refuses namespaces."""
    code = pathlib.Path(FILE).read_text()
    assert code.count("\n        enter_namespace()\n") == 1
    file = tmp_path / "network.py"
    file.write_text(code.replace("\n        enter_namespace()\n", "\n        raise OSError('not permitted')\n"))
    return str(file)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_where_namespaces_are_refused_servers_listen_on_the_loopback_device(tmp_path, no_namespace):
    for _ in range(2):  # The second finds the library.
        found = entered(file=no_namespace, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert found["got"] == network.LOOPBACK and found["net"] == os.readlink("/proc/self/ns/net")
        assert found["bound"] == ["127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"]
    assert len(list((tmp_path / "cache" / "boonta").iterdir())) == 1


def in_cache(folder: pathlib.Path, **env: str) -> dict[str, str]:
    """The environment of a process that keeps the library there."""
    return {**os.environ, "XDG_CACHE_HOME": str(folder), **env}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", ["my cache", "a:b"])
def test_a_path_that_the_dynamic_linker_would_cut_is_refused(tmp_path, no_namespace, name):
    found = entered(file=no_namespace, env=in_cache(tmp_path / name))
    assert found["got"].startswith(network.REFUSED) and found["bound"][0] == "0.0.0.0"
    assert f"as {tmp_path / name / 'boonta'} has: name another XDG_CACHE_HOME" in found["got"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_that_has_no_effect_any_more_is_made_again(tmp_path, no_namespace):
    """It is damaged, or another machine has made it."""
    entered(file=no_namespace, env=in_cache(tmp_path))
    (library,) = (tmp_path / "boonta").iterdir()
    library.write_bytes(b"\x7fELF")
    found = entered(file=no_namespace, env=in_cache(tmp_path))
    assert found["got"] == network.LOOPBACK and found["bound"][0] == "127.0.0.1"
    assert [*(tmp_path / "boonta").iterdir()] == [library]


def test_where_the_library_has_no_effect_nothing_claims_that_it_has(tmp_path, no_namespace):
    """As in a folder from which no program may be run."""
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "no library" > "$8"\n')
    compiler.chmod(0o700)
    found = entered(file=no_namespace, env=in_cache(tmp_path, PATH=str(tmp_path)))
    assert found["got"].startswith(network.REFUSED) and found["bound"][0] == "0.0.0.0"
    assert ".so has no effect: " in found["got"] and "cannot be preloaded" in found["got"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_machines_with_another_c_library_have_a_library_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = network.library()
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.31")
    second = network.library()
    assert first != second and first.exists() and second.exists() and second.name.endswith("-glibc-2.31.so")


@pytest.mark.parametrize(("got", "preloaded"), [(network.LOOPBACK, "ours.so mine.so"), (network.PRIVATE, "mine.so")])
def test_a_group_with_libraries_of_its_own_keeps_the_one_that_it_needs(monkeypatch, got, preloaded):
    monkeypatch.setenv(network.GOT, got)
    monkeypatch.setenv("LD_PRELOAD", "ours.so")
    found = local.with_common({"replay": {"LD_PRELOAD": "mine.so"}, "actor": {}})
    assert found["replay"]["LD_PRELOAD"] == preloaded and "LD_PRELOAD" not in found["actor"]


@pytest.mark.skipif(not can_unshare() or shutil.which("cc") is None, reason="needs namespaces and a C compiler")
def test_where_a_namespace_can_be_entered_but_not_set_up_the_process_stays_where_it_is(tmp_path):
    """As on Ubuntu 24.04, which lets any process enter a user namespace, but may give it no rights there."""
    code = pathlib.Path(FILE).read_text()
    for usual, refused in (
        ("if libc.unshare(CLONE_NEWNET) != 0:", "if True:"),  # Root gets as far as others.
        ('pathlib.Path("/proc/self/setgroups").write_text("deny")', "raise OSError('no rights')"),
    ):
        assert code.count(usual) == 1
        code = code.replace(usual, refused)
    file = tmp_path / "network.py"
    file.write_text(code)
    found = entered(file=str(file), env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found["got"] == network.LOOPBACK and found["net"] == os.readlink("/proc/self/ns/net")
    assert found["bound"][0] == "127.0.0.1"


def test_a_machine_that_allows_neither_is_told(tmp_path, monkeypatch, no_namespace):
    empty = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = entered(file=no_namespace, env=empty)
    assert found["got"].startswith(network.REFUSED) and found["bound"][0] == "0.0.0.0"
    monkeypatch.setenv(network.GOT, found["got"])
    message = r"no network namespace \(not permitted\), and no library .* \(there is no C compiler\).* --network open"
    with pytest.raises(OSError, match=message):
        network.isolate()


def test_a_process_becomes_itself_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nfrom boonta.programs.wiring.machine import network\n"
        "print(os.getpid(), *sys.argv[1:])\nprint(network.isolate())\n"
    )
    done = subprocess.run([sys.executable, str(script), "--a", "b c"], capture_output=True, text=True, check=True)
    first, second, got = done.stdout.splitlines()
    assert first == second and first.endswith(" --a b c")
    assert got.startswith(("a namespace", "the loopback", "refused"))


@pytest.mark.parametrize(
    ("got", "words"),
    [(network.LOOPBACK, "which other users of this machine can reach"), (network.PRIVATE, "nothing outside can reach")],
)
def test_the_first_line_of_a_run_says_who_can_reach_it(monkeypatch, got, words):
    monkeypatch.setenv(network.GOT, got)
    line = launch._settle_network(launch.Run(), None)
    assert line.startswith("network: ") and line.endswith(words)
