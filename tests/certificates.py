"""Certificates for tests of TLS."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PASSWORD = b"potatoes"


def self_signed(
    folder: Path, name: str = "web", *, days: float = 90.0, begin: float = -1.0, encrypted: bool = False
) -> tuple[Path, Path]:
    """Create a self-signed certificate that is valid for ``days`` from now, and its private key.

    ``begin`` is the start of the validity, in days from now.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017  tests of the agent run on Python 3.9
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=begin))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    how = serialization.BestAvailableEncryption(PASSWORD) if encrypted else serialization.NoEncryption()
    folder.mkdir(exist_ok=True)
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))
    paths[1].chmod(0o600)
    return paths
