"""Makes the certificate that the lab's web hosts and balancers use for HTTPS, with openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools import installed_programs

FILE: Final = "certificate.pem"
DAYS: Final = 30


def write_certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate for ``name`` and its key into one file, which only root can read. Return its
    path. Raises LbdnsError.

    The key is one for ECDSA with P-256, the kind that ACME clients create by default. A signature costs a host much
    less CPU time than with RSA.
    """
    path, key = folder / FILE, folder / f"{FILE}.key"
    command = [
        installed_programs.path_of("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
        "-days", str(DAYS), "-keyout", str(key), "-out", str(path),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LbdnsError(f"openssl could not make a certificate: {done.stderr.strip()}")
    path.chmod(0o600)
    with path.open("a") as file:
        file.write(key.read_text())
    key.unlink()
    return path
