"""Key files for signed reports, with one key per line: master keys for collectors, and agent keys for agents.

During key rotation, a file contains several keys. All keys are accepted, and the first key signs new reports.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lbdns_shared.errors import KeyFileError
from lbdns_shared.report import KEY_ID_LENGTH, AgentKey, is_host_name

KEY_LENGTH = 32  # bytes: the strength of SHA-256
_DERIVATION = b"lbdns report v1 "
_MESSAGE_DERIVATION = b"lbdns message v1 "


@dataclass(frozen=True)
class MasterKey:
    """A collector's key, from which every host's key is derived."""

    secret: bytes = field(repr=False)

    @cached_property  # all hosts' keys share one object
    def key_id(self) -> bytes:
        """The key ID in datagrams, which consists of the first 4 bytes of the secret's SHA-256 hash."""
        return hashlib.sha256(self.secret).digest()[:KEY_ID_LENGTH]

    def agent_key(self, host: str) -> AgentKey:
        """Return the key of one host, derived from this master key.

        The master key and other hosts' keys cannot be computed from a host's key.
        """
        secret = hmac.digest(self.secret, _DERIVATION + host.encode("ascii"), hashlib.sha256)
        return AgentKey(self.key_id, host, secret)

    def message_key(self, purpose: str) -> bytes:
        """Return the key for the messages of one purpose that collectors and DNS servers exchange over a bus.

        An agent's key, and keys for other purposes, cannot be used instead.
        """
        return hmac.digest(self.secret, _MESSAGE_DERIVATION + purpose.encode("ascii"), hashlib.sha256)

    def line(self) -> str:
        """Return the key as a line for a key file."""
        return f"master {base64.b64encode(self.secret).decode()}"


def agent_line(key: AgentKey) -> str:
    """Return an agent's key as a line for a key file."""
    return f"agent {key.host} {key.key_id.hex()} {base64.b64encode(key.secret).decode()}"


def new_master_key() -> MasterKey:
    return MasterKey(secrets.token_bytes(KEY_LENGTH))


@dataclass(frozen=True)
class KeyFile:
    """The keys in one key file, in the order of the file."""

    masters: tuple[MasterKey, ...]
    agents: tuple[AgentKey, ...]

    def key_to_send(self, host: str) -> AgentKey | None:
        """Return the key with which ``host`` signs reports: its agent key, or one derived from the first master key."""
        own = next((key for key in self.agents if key.host == host), None)
        return self.masters[0].agent_key(host) if own is None and self.masters else own


def parse_key_file(text: str, where: str) -> KeyFile:
    """Parse the text of the key file at the path ``where``.

    Raises KeyFileError, which lists all invalid lines but shows no secrets.
    """
    masters: list[MasterKey] = []
    agents: list[AgentKey] = []
    findings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        try:
            if words[:1] == ["master"] and len(words) == 2:
                masters.append(MasterKey(_secret(words[1])))
            elif words[:1] == ["agent"] and len(words) == 4:
                agents.append(AgentKey(_key_id(words[2]), _host(words[1]), _secret(words[3])))
            elif words:
                raise ValueError("the line must be 'master BASE64' or 'agent HOST KEY-ID BASE64'")
        except ValueError as error:
            findings.append(f"{where}:{number}: key: {error}; to generate a valid line, run 'lbdns keygen'")
    if not findings and not masters and not agents:
        findings.append(f"{where}: the file contains no key; run 'lbdns keygen' to generate one")
    if findings:
        raise KeyFileError(*findings)
    return KeyFile(tuple(masters), tuple(agents))


def read_key_file(path: Path) -> tuple[KeyFile, list[str]]:
    """Return two values: the keys in ``path``, and a list with a warning if other users can read the file. Raises
    KeyFileError."""
    text, warnings = read_private(path, "key file", "check that this is a key file")
    return parse_key_file(text, str(path)), warnings


def read_private(path: Path, what: str, hint: str) -> tuple[str, list[str]]:
    """Return two values: the text of a file that holds secrets, and a list with a warning if other users can read the
    file. Raises KeyFileError.

    ``what`` names the kind of file in error messages. If the file is not a text file, the error message ends with
    ``hint``.
    """
    try:
        text = path.read_text("ascii")
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot read the {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: the {what} is not a text file; {hint}") from None
    if mode & 0o077:
        return text, [f"{path}: {what}: mode {mode:04o} lets other users read it; run 'chmod 600 {path}'"]
    return text, []


def _host(text: str) -> str:
    if not is_host_name(text.lower()):
        raise ValueError(f"{text!r} is not a valid host name")
    return text.lower()


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the key must be in base64") from None
    if len(secret) != KEY_LENGTH:
        raise ValueError(f"the key has {len(secret)} bytes, not {KEY_LENGTH}")
    return secret


def _key_id(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{8}", text):
        raise ValueError("the key id must be 8 hex digits")
    return bytes.fromhex(text)
