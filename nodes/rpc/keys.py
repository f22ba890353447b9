"""The key of a run: a self-signed certificate, by which the run's processes authenticate each other on any machine.

Only processes that have the file may call the run's servers, or serve them.

./run python -m boonta.nodes.rpc.keys prints one.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import pathlib
import ssl
import sys
from typing import IO

NAME = "boonta"
FILE = "rpc.pem"  # In the run's folder, unless another place is chosen.
LAST_LINE = b"-----END CERTIFICATE-----"
# A key is valid for ever, as RFC 5280 (4.1.2.5) writes it, since machines' clocks differ, and some are years behind.
FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.timezone.utc)


def make_once(file: pathlib.Path) -> None:
    """Makes a key unless the file exists; of several processes, on any machine, only the first makes one.

    Raises:
      OSError: the file can't be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(file.with_name(file.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            fresh = file.with_name(file.name + ".new")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
                opened.write(new())
            fresh.replace(file)  # This is atomic: a file that exists is a whole key.


def in_memory(content: bytes) -> str:
    """The path of a key that exists in this process's memory alone."""
    descriptor = os.memfd_create("key")
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"


def read(stream: IO[bytes]) -> bytes:
    """Reads a key as `new` makes it, and nothing after it."""
    content = b""
    for line in iter(stream.readline, b""):
        content += line
        if line.strip() == LAST_LINE:
            break
    return content


def new() -> bytes:
    """A new key: its private part and its certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(FIRST)
        .not_valid_after(LAST)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def server_context(file: str) -> ssl.SSLContext:
    """The TLS context of a server."""
    return _context(ssl.PROTOCOL_TLS_SERVER, file)


def client_context(file: str) -> ssl.SSLContext:
    """The TLS context of a client."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, file)


def _context(protocol: int, file: str) -> ssl.SSLContext:
    """A context that presents this certificate, and trusts no other.

    Raises:
      OSError: the file can't be read, or is no key.
    """
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # There is one certificate, which all hosts have.
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(file)
        context.load_verify_locations(file)
    except OSError as error:
        raise OSError(f"{file} can't be read, or is no key: {error}") from error
    return context


if __name__ == "__main__":
    sys.stdout.buffer.write(new())
