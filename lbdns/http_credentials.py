"""Who may read over HTTP: a user's password (RFC 7617) and bearer tokens (RFC 6750). Pure but for reading the files."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.web import WebConfig
from lbdns.errors import ConfigError
from lbdns.keys import read_private

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 section 2.1
_HOW: Final = "'openssl rand -hex 32' prints a good one"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a reader has to know one of, or sends; empty: nothing. A browser can't send a token of its own: it may take
    the place of the password, with any user."""

    user: str = ""
    password: str = field(default="", repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.user or self.tokens)

    def header(self) -> str:
        """The value of the Authorization header to send; empty if there is nothing to say."""
        if self.tokens:
            return f"Bearer {self.tokens[0]}"
        if not self.user:
            return ""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"

    def accept(self, header: str) -> bool:
        """Whether the value of an Authorization header is good. Takes as long whatever is wrong with it."""
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
        return sum(_same(text, token) for token in self.tokens) > 0  # of all: which one it is must not show in the time


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


NOBODY: Final = Credentials()


def read_credentials(web: WebConfig) -> tuple[Credentials, list[str]]:
    """What ``[web]`` asks of readers, and warnings (files that others can read). Raises ConfigError.

    No message holds any part of a secret.
    """
    password, warnings = "", list[str]()
    tokens: tuple[str, ...] = ()
    if web.password_file:
        text, more = read_private(web.password_file, "[web] password_file", f"it holds one password; {_HOW}")
        warnings += more
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or "\n" in password:
            what = "holds more than one line" if password else "is empty"
            raise ConfigError(f"{web.password_file}: [web] password_file: {what}: it holds one password; {_HOW}")
    if web.token_file:
        tokens, more = read_tokens(web.token_file, "[web] token_file")
        warnings += more
    return Credentials(web.user, password, tokens), warnings


def read_tokens(path: Path, key: str) -> tuple[tuple[str, ...], list[str]]:
    """The tokens in the file that ``key`` of the configuration names, and warnings. Raises ConfigError."""
    text, warnings = read_private(path, key, f"it holds a token a line; {_HOW}")
    return parse_tokens(text, f"{path}: {key}"), warnings


def parse_tokens(text: str, where: str) -> tuple[str, ...]:
    """Tokens, one a line: the first is sent, all are accepted. Raises ConfigError."""
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not tokens:
        raise ConfigError(f"{where}: is empty: it holds a token a line; {_HOW}")
    for number, token in enumerate(tokens, 1):
        if not _TOKEN.fullmatch(token):
            raise ConfigError(f"{where}: token {number} is none: letters, digits and -._~+/ only; {_HOW}")
    return tokens
