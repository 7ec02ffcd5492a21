"""A user's nkey, with which a client of NATS signs the server's random number instead of sending a password.

The package cryptography signs. It is an extra, because most farms have no nkeys.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private
from lbdns_shared.nkey_format import SEED_LENGTH, parse_user_seed, user_key_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class Nkey:
    """A user's key. Two keys are equal if their seeds are."""

    seed: bytes = field(repr=False)

    @property
    def public_key(self) -> str:
        """The text by which a NATS server knows the user."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return user_key_text(_private_key(self.seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, nonce: str) -> str:
        """Return the signature of a server's random number, in base64. Raises ValueError if it is not ASCII."""
        signature = _private_key(self.seed).sign(nonce.encode("ascii"))
        return base64.urlsafe_b64encode(signature).decode("ascii").rstrip("=")


def read_nkey(path: Path, what: str, how_to_install: str) -> tuple[Nkey, list[str]]:
    """Return two values: the nkey whose seed ``path`` contains, and a list with a warning if other users can read the
    file.

    ``what`` names the file in error messages. ``how_to_install`` ends the message if cryptography is missing. The file
    contains one line with the seed; lines that begin with # are comments. Raises ConfigError.
    """
    text, warnings = read_private(path, what, "check that this is a file with the seed of an nkey")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) != 1:
        raise ConfigError(f"{path}: {what}: the file must contain one line with the seed of an nkey (SU...)")
    try:
        nkey = Nkey(parse_user_seed(lines[0]))
    except ValueError as error:
        raise ConfigError(f"{path}: {what}: {error}") from None
    check_signing(f"{path}: {what}", how_to_install)
    return nkey, warnings


def check_signing(where: str, how_to_install: str) -> None:
    """Raise ConfigError if this host can't sign with nkeys. ``how_to_install`` ends the message if cryptography is
    missing."""
    try:
        _private_key(bytes(SEED_LENGTH))
    except ImportError:
        raise ConfigError(f"{where}: nkeys require the package cryptography; {how_to_install}") from None
    except Exception as error:  # UnsupportedAlgorithm, for example if the system permits only other algorithms
        raise ConfigError(f"{where}: the package cryptography can't sign with Ed25519: {error}") from None


def _private_key(seed: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)
