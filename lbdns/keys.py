"""Key files: master keys for a collector, agent keys for an agent, one a line; several lines are a rotation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from lbdns.errors import KeyFileError
from lbdns.report import KEY_ID_LENGTH, AgentKey, is_host_name

KEY_LENGTH = 32  # bytes: the strength of SHA-256
_DERIVATION = b"lbdns report v1 "


@dataclass(frozen=True, slots=True)
class MasterKey:
    """The key a collector holds; every host's own key follows from it."""

    secret: bytes = field(repr=False)

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(self.secret).digest()[:KEY_ID_LENGTH]

    def agent_key(self, host: str) -> AgentKey:
        """The key of one host, from which neither the master key nor another host's can be had."""
        secret = hmac.digest(self.secret, _DERIVATION + host.encode("ascii"), hashlib.sha256)
        return AgentKey(self.key_id, host, secret)

    def line(self) -> str:
        """As it stands in a key file."""
        return f"master {base64.b64encode(self.secret).decode()}"


def agent_line(key: AgentKey) -> str:
    """An agent's key as it stands in a key file."""
    return f"agent {key.host} {key.key_id.hex()} {base64.b64encode(key.secret).decode()}"


def new_master_key() -> MasterKey:
    return MasterKey(secrets.token_bytes(KEY_LENGTH))


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys of one file, in its order; the first is used to send, all are accepted."""

    masters: tuple[MasterKey, ...]
    agents: tuple[AgentKey, ...]

    def key_to_send(self, host: str) -> AgentKey | None:
        """The key ``host`` signs with: its own agent line, else derived from the first master line."""
        for key in self.agents:
            if key.host == host:
                return key
        return self.masters[0].agent_key(host) if self.masters else None


def parse_key_file(text: str, where: str) -> KeyFile:
    """Read the lines of a key file; ``where`` names it in errors. Raises KeyFileError with every bad line.

    Secrets are never part of a message.
    """
    masters: list[MasterKey] = []
    agents: list[AgentKey] = []
    findings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        try:
            match words:
                case []:
                    pass
                case ["master", secret]:
                    masters.append(MasterKey(_secret(secret)))
                case ["agent", host, key_id, secret]:
                    agents.append(AgentKey(_key_id(key_id), _host(host), _secret(secret)))
                case _:
                    raise ValueError("expected 'master BASE64' or 'agent HOST KEY-ID BASE64'")
        except ValueError as error:
            findings.append(f"{where}:{number}: key: {error}. 'lbdns keygen' prints a good line")
    if not findings and not masters and not agents:
        findings.append(f"{where}: key: the file holds no key. 'lbdns keygen' prints one")
    if findings:
        raise KeyFileError(*findings)
    return KeyFile(tuple(masters), tuple(agents))


def read_key_file(path: Path) -> tuple[KeyFile, list[str]]:
    """The keys in ``path``, and warnings (a file that others can read). Raises KeyFileError."""
    text, warnings = read_private(path, "key file", "is it a key file?")
    return parse_key_file(text, str(path)), warnings


def read_private(path: Path, what: str, instead: str) -> tuple[str, list[str]]:
    """The text of a file that holds secrets, and warnings if others can read it too. Raises KeyFileError.

    ``what`` names it in messages, ``instead`` says what it should hold.
    """
    try:
        text = path.read_text("ascii")
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(f"{path}: {what}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: {what}: holds bytes that are no text; {instead}") from None
    if mode & 0o077:
        return text, [f"{path}: {what}: mode {mode:04o} lets others read it; 'chmod 600 {path}'"]
    return text, []


def _host(text: str) -> str:
    if not is_host_name(text.lower()):
        raise ValueError(f"{text!r} is no host name")
    return text.lower()


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the key is not base64") from None
    if len(secret) != KEY_LENGTH:
        raise ValueError(f"the key has {len(secret)} bytes, not {KEY_LENGTH}")
    return secret


def _key_id(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{8}", text):
        raise ValueError("the key id is not 8 hex digits")
    return bytes.fromhex(text)
