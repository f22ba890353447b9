"""Keeps a program's replay server to itself: Reverb listens on all interfaces, and serves whoever connects.

A program gets a network of its own, in which nothing but the program is: neither other hosts nor other users of this
machine can connect. Linux gives one to any user, together with a user namespace. Where it refuses (in most containers,
and by some distributions' settings), a small library is put before the processes' own that lets them listen on the
loopback device alone; it needs a C compiler, and other users of the machine can still connect. The dynamic linker
starts a process without a library that it can't load, so each start tries first whether the library works.

A process with several threads can't enter a user namespace, and libraries start threads as they are imported. So the
process becomes this file, which imports the standard library alone, and then its own command again.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping

GOT = "BOONTA_NETWORK"  # The environment variable with what this file has found, for the command that follows it.
OPEN = "open to whoever can reach this machine"
PRIVATE = "a namespace of its own, which nothing outside can reach"
LOOPBACK = "the loopback device alone, which other users of this machine can reach"
REFUSED = "refused: "  # This and the reasons.
OF = "--of"  # The argument of this file before the id of the process whose network the command is to enter.
TRY = "--try"  # The argument of this file that only tries to enter a namespace.

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
COMPILE_S = 60.0
PROVE_S = 60.0  # Deadline of the process that shows where servers listen; it takes some 20 ms.
PRELOAD = "LD_PRELOAD"  # The variable with the libraries that the dynamic linker puts before a program's own.
SEPARATORS = " :"  # They end a path there.
# Binds sockets of all interfaces, IPv4's and IPv6's, to the loopback device; "localhost" still reaches them.
SOURCE = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
int bind(int fd, const struct sockaddr *address, socklen_t size) {
  static int (*original)(int, const struct sockaddr *, socklen_t);
  struct sockaddr_storage own;
  if (!original) original = dlsym(RTLD_NEXT, "bind");
  if (size > sizeof own) return original(fd, address, size);
  memcpy(&own, address, size);
  struct sockaddr_in *four = (struct sockaddr_in *)&own;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)&own;
  if (address->sa_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY))
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (address->sa_family == AF_INET6 && !memcmp(&six->sin6_addr, &in6addr_any, sizeof in6addr_any))
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &six->sin6_addr);
  return original(fd, (struct sockaddr *)&own, size);
}
"""
# Prints where servers of all interfaces come to listen. A machine may lack IPv6, and then none listens by it.
LISTEN = """
import socket
for family, everywhere in (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"):
    try:
        server = socket.socket(family)
        server.bind((everywhere, 0))
    except OSError:
        continue
    print(server.getsockname()[0])
"""
LOCAL = ("127.0.0.1", "::ffff:127.0.0.1")


def isolate() -> str:
    """Makes this process start anew in a network of its own, unless it has one; returns which one it has got.

    Raises:
      OSError: this machine allows none; the message says why, and what to do.
    """
    got = os.environ.get(GOT)
    if got is None:
        # Not above: this file also runs as a script, without Boonta.
        from boonta.programs.wiring.supervision import interrupts

        sys.stdout.flush()
        interrupts.hold()
        os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, sys.executable, *sys.orig_argv[1:]])
    if got.startswith(REFUSED):
        raise OSError(
            f"the program's servers can't be kept from the network: {got.removeprefix(REFUSED)}. Mend one of the two, "
            "or let whoever reaches this machine use them, with --network open"
        )
    return got


def enter() -> str:
    """Gives this process, and those that it starts, a network; returns which one."""
    try:
        try_namespace()
        enter_namespace()
        return PRIVATE
    except OSError as error:
        refusal = f"no network namespace ({error})"
    try:
        os.environ[PRELOAD] = preloaded(library())
        return LOOPBACK
    except (OSError, subprocess.SubprocessError) as error:
        return f"{REFUSED}{refusal}, and no library that binds to the loopback device ({error})"


def try_namespace() -> None:
    """Enters such a network in a process of its own: half-way, the loopback device is down and there is no way back.

    Raises:
      OSError: the machine refuses, whether the network or the rights there.
    """
    tried = subprocess.run([sys.executable, "-I", "-S", __file__, TRY], capture_output=True, text=True)
    if tried.returncode:
        raise OSError((tried.stderr.splitlines() or [f"the attempt ended with code {tried.returncode}"])[-1])


def enter_namespace() -> None:
    """Moves this process, which must have one thread, into a network with a loopback device alone.

    Raises:
      OSError: the machine refuses.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no user namespace, in which it could not read the files of other users any more.
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def enter_that_of(process: int) -> None:
    """Moves this process, which must have one thread, into the network of another process of this user's.

    Raises:
      OSError: there is no such process, or the machine refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, flag in (("user", CLONE_NEWUSER), ("net", CLONE_NEWNET)):
        with open(f"/proc/{process}/ns/{kind}") as theirs:
            # A process can't enter the user namespace that it is in.
            if os.path.samestat(os.fstat(theirs.fileno()), os.stat(f"/proc/self/ns/{kind}")):
                continue
            if libc.setns(theirs.fileno(), flag) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def library() -> pathlib.Path:
    """The library for LD_PRELOAD; it is compiled when it is first needed, and kept in the user's cache.

    Machines that share the cache may have different processors and C libraries, so each kind has a file of its own.

    Raises:
      OSError: there is no compiler, or no place for the library, or it has no effect here.
      subprocess.SubprocessError: the compiler failed, or a process with the library did.
    """
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache").absolute() / "boonta"
    if any(each in str(cache) for each in SEPARATORS):
        raise OSError(f"LD_PRELOAD takes no path with a space or a colon, as {cache} has: name another XDG_CACHE_HOME")
    file = cache / f"loopback-{hashlib.sha256(SOURCE.encode()).hexdigest()[:16]}-{_kind()}.so"
    if file.exists() and not _fault(file):
        return file
    _compile(file)  # Whatever was there is damaged, or of a machine that only looks like this one.
    if fault := _fault(file):
        raise OSError(f"{file} has no effect: {fault}; if no program may be run there, name another XDG_CACHE_HOME")
    return file


def _kind() -> str:
    """The kind of machine that a compiled library is for: the processor and the C library."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # It is another one than GNU's.
        libc = ""
    return f"{os.uname().machine}-{libc.replace(' ', '-') or 'other'}"


def _compile(file: pathlib.Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = file.with_name(f"{file.name}.{os.uname().nodename}.{os.getpid()}")  # Machines may share the folder.
    command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(fresh), "-ldl"]
    try:
        subprocess.run(command, input=SOURCE.encode(), check=True, capture_output=True, timeout=COMPILE_S)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def _fault(file: pathlib.Path) -> str:
    """Why a server of a process with the library can be reached from outside; empty if it can't."""
    tried = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LISTEN],
        env={**os.environ, PRELOAD: preloaded(file)},
        capture_output=True,
        text=True,
        timeout=PROVE_S,
    )
    places = tried.stdout.split()
    if tried.returncode == 0 and places and set(places) <= set(LOCAL):
        return ""
    return (tried.stderr.splitlines() or [f"servers listen at {' and '.join(places) or 'no address'}"])[-1]


def preloaded(file: pathlib.Path) -> str:
    """The value of LD_PRELOAD with the library before those that it has already."""
    return " ".join(filter(None, (str(file), os.environ.get(PRELOAD))))


def kept(variables: Mapping[str, str]) -> dict[str, str]:
    """What must change in a process's variables so that it keeps the library, if this process has it."""
    if PRELOAD not in variables or os.environ.get(GOT) != LOOPBACK:
        return {}
    return {PRELOAD: f"{os.environ[PRELOAD]} {variables[PRELOAD]}"}


if __name__ == "__main__":
    if sys.argv[1] == OF:
        try:
            enter_that_of(int(sys.argv[2]))
        except OSError as error:
            sys.exit(f"error: the network of process {sys.argv[2]} can't be entered: {error}")
        os.execv(sys.argv[3], sys.argv[3:])
    if sys.argv[1] == TRY:
        try:
            enter_namespace()
        except OSError as error:
            sys.exit(str(error))
        sys.exit()
    os.environ[GOT] = enter()
    os.execv(sys.argv[1], sys.argv[1:])
