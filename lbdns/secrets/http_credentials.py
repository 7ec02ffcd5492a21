"""HTTP credentials: reads, sends and checks passwords (RFC 7617) and bearer tokens (RFC 6750)."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.web_section import WebConfig
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_HOW: Final = "generate one with 'openssl rand -hex 32'"


@dataclass(frozen=True, slots=True)
class HttpCredentials:
    """Credentials that a server accepts or that a client sends. If no credentials are required, all fields are empty.

    Browsers do not prompt for bearer tokens. A token is therefore also accepted as a password, with any user name.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.user or self.tokens)

    def header(self) -> str:
        """Return the value of the Authorization header, or an empty string if there are no credentials."""
        if self.tokens:
            return f"Bearer {self.tokens[0]}"
        if not self.user:
            return ""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"

    def accept(self, header: str) -> bool:
        """Return whether an Authorization header is valid.

        The duration of the comparison does not depend on the secrets.
        """
        scheme, _, rest = header.partition(" ")
        rest = rest.strip()
        if scheme.lower() == "bearer":
            return self._is_token(rest)
        if scheme.lower() != "basic":
            return False
        try:
            user, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        is_user = _same(user, self.user) & _same(password, self.password) & bool(self.user and colon)
        return bool(is_user | self._is_token(password))

    def _is_token(self, text: str) -> bool:
        # Compare all tokens: the time must not reveal which one matches
        return sum(_same(text, token) for token in self.tokens) > 0


def _same(text: str, known: str) -> bool:
    return hmac.compare_digest(text.encode(), known.encode())


NO_CREDENTIALS: Final = HttpCredentials()


def read_credentials(web: WebConfig) -> tuple[HttpCredentials, list[str]]:
    """Return the credentials that ``[web]`` requires of clients, and warnings about files that other users can read.

    Raises ConfigError. Error messages never contain any part of a secret.
    """
    password, warnings = "", list[str]()
    tokens: tuple[str, ...] = ()
    if web.password_file:
        text, more = read_private(web.password_file, "[web] password_file", f"it must contain one password; {_HOW}")
        warnings += more
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or "\n" in password:
            what = "contains more than one line" if password else "is empty"
            what = f"the file {what}; it must contain one password; {_HOW}"
            raise ConfigError(f"{web.password_file}: [web] password_file: {what}")
    if web.token_file:
        tokens, more = read_tokens(web.token_file, "[web] token_file")
        warnings += more
    return HttpCredentials(web.user, password, tokens), warnings


def read_tokens(path: Path, key: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the tokens in a file, and a warning if other users can read the file.

    Raises ConfigError. Error messages contain ``key``, the configuration key of the file.
    """
    text, warnings = read_private(path, key, f"it must contain one token per line; {_HOW}")
    return parse_tokens(text, f"{path}: {key}"), warnings


def parse_tokens(text: str, where: str) -> tuple[str, ...]:
    """Return the tokens in ``text``, which contains one token per line.

    Clients send the first token; servers accept every token. Raises ConfigError.
    """
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not tokens:
        raise ConfigError(f"{where}: the file is empty; it must contain one token per line; {_HOW}")
    for number, token in enumerate(tokens, 1):
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"{where}: token {number} is not valid: use only letters, digits and -._~+/; {_HOW}")
    return tokens
