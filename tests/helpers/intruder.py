"""A script: tries, as a user of this machine, to reach a program's servers and files; prints what it could reach.

It gives up root's rights only once it runs, so that it needs no Python that the other user can read.
"""

from __future__ import annotations

import json
import os
import socket
import sys

TIMEOUT_S = 5.0
MAY_DO_ANYTHING = 0  # The user who keeps root's rights.


def reached(uid: int, addresses: list[tuple[str, int]], sockets: list[str], files: list[str]) -> list[str]:
    """Those of the addresses, Unix sockets and files, or folders, that the user can connect to or read."""
    "".encode("idna")  # Addresses are encoded so; Python loads the code for it now, which the user may not be able to.
    if uid != MAY_DO_ANYTHING:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    found = [f"{host}:{port}" for host, port in addresses if _connects(host, port)]
    found += [path for path in sockets if _connects_to_file(path)]
    return found + [path for path in files if _reads(path)]


def _connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _connects_to_file(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT_S)
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def _reads(path: str) -> bool:
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            open(path, "rb").close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    print(json.dumps(reached(**json.load(sys.stdin))))
