"""HTTP credentials: reads, sends and checks passwords (RFC 7617) and bearer tokens (RFC 6750)."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.web_section import WebConfig
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_MIN_LENGTH: Final = 16  # characters; clients may try 4 tokens per second, from each of their networks
_HOW: Final = "generate one with 'openssl rand -hex 32'"


@dataclass(frozen=True, slots=True)
class HttpCredentials:
    """Credentials that a server accepts or that a client sends. If no credentials are required, all fields are empty.

    Browsers do not prompt for bearer tokens. A token is therefore also accepted as a password, with any user name.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)
    steer_tokens: tuple[str, ...] = field(default=(), repr=False)  # if there are any, only these may steer

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
        user, secret = _user_and_secret(header)
        found = self._is_user(user, secret), *_matches(secret, self.tokens), *_matches(secret, self.steer_tokens)
        return sum(found) > 0

    def steerer(self, header: str) -> str:
        """Return the identity that an Authorization header gives to a steering client: a user name, or the number of a
        token in its file.

        The result is empty if the header is not valid for steering.
        """
        user, secret = _user_and_secret(header)
        if self.steer_tokens:
            matches, kind = _matches(secret, self.steer_tokens), "steer token"
        else:
            matches, kind = _matches(secret, self.tokens), "token"
            if self._is_user(user, secret):
                return self.user
        return f"{kind} {matches.index(True) + 1}" if any(matches) else ""

    def _is_user(self, user: str, password: str) -> bool:
        return _same(user, self.user) & _same(password, self.password) & bool(self.user)


def _user_and_secret(header: str) -> tuple[str, str]:
    """Return the user name and the password or token in an Authorization header, or empty strings."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        return "", rest.strip()
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except ValueError:  # not base64, not UTF-8, or not ASCII
        return "", ""
    user, colon, password = text.partition(":")
    return (user, password) if colon else ("", "")


def _matches(secret: str, tokens: tuple[str, ...]) -> list[bool]:
    """Return, for each token, whether it equals ``secret``. The time that the comparison takes does not reveal which
    token matches.
    """
    return [_same(secret, token) for token in tokens]


def _same(text: str, known: str) -> bool:
    # A header that is not UTF-8 contains surrogates
    return hmac.compare_digest(text.encode(errors="surrogatepass"), known.encode())


NO_CREDENTIALS: Final = HttpCredentials()


def read_credentials(web: WebConfig) -> tuple[HttpCredentials, list[str]]:
    """Return two values: the credentials that ``[web]`` requires of clients, and warnings.

    Warnings report files that other users can read, and steering tokens that are too short.

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
    steer_tokens: tuple[str, ...] = ()
    if web.steer_token_file:
        steer_tokens, more = read_tokens(web.steer_token_file, "[web] steer_token_file")
        warnings += more
        warnings += _short_tokens(steer_tokens, f"{web.steer_token_file}: [web] steer_token_file")
    elif web.steer:
        warnings += _short_tokens(tokens, f"{web.token_file}: [web] token_file")
    return HttpCredentials(web.user, password, tokens, steer_tokens), warnings


def _short_tokens(tokens: tuple[str, ...], where: str) -> list[str]:
    """Return a warning for each token that is too short to permit steering."""
    what = f"is short enough to be guessed, and it permits steering; {_HOW}"
    return [f"{where}: token {n} {what}" for n, token in enumerate(tokens, 1) if len(token) < _MIN_LENGTH]


def read_tokens(path: Path, key: str) -> tuple[tuple[str, ...], list[str]]:
    """Return two values: the tokens in a file, and a warning if other users can read the file.

    Raises ConfigError. Error messages contain ``key``, the configuration key that specifies the file.
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
