"""What is asked for: targets with weights, from a URL, a file of URLs, or WebStone's file set."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import SplitResult, urlsplit

from lbdns.errors import ConfigError
from lbdns.toml_table import nearest

HTTP_PORT: Final = 80
MAX_WEIGHT: Final = 1e9  # sums of a million of them are still exact to a thousandth
MAX_ERRORS: Final = 10  # of one file that are told: the others are mostly the same again

#: WebStone's: name in a path, bytes, weight. Sizes are decimal, as the study gives them
WEBSTONE: Final = (
    ("500", 500, 350.0), ("5k", 5_000, 500.0), ("50k", 50_000, 140.0), ("500k", 500_000, 9.0), ("5m", 5_000_000, 1.0),
)  # fmt: skip
FILE_SETS: Final = ("html", "cgi", "mixed")

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Target:
    """One URL. ``host`` is a name or an address without brackets, ``path`` has the query with it.

    ``expect`` is the length in bytes that a good response's body has, if it is known.
    """

    host: str
    port: int
    path: str
    weight: float = 1.0
    expect: int | None = None

    @property
    def authority(self) -> str:
        """The value of the Host header: RFC 9110 section 7.2, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTP_PORT else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"http://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class Mix:
    """Targets that are asked for by chance, each as often as its weight says. ``targets`` is never empty."""

    name: str
    targets: tuple[Target, ...]

    def chooser(self, chance: Random) -> Callable[[], Target]:
        """What gives the next target; it costs as much as the logarithm of the number of targets."""
        targets = self.targets
        if len(targets) == 1:
            only = targets[0]
            return lambda: only
        sums = list(accumulate(target.weight for target in targets))
        total, last, draw = sums[-1], len(targets) - 1, chance.random
        # Rounding could reach past the last sum
        return lambda: targets[min(bisect_right(sums, draw() * total), last)]


def parse_url(text: str) -> Target:
    """Reads ``http://HOST[:PORT][/PATH][?QUERY]``. Raises ValueError."""
    if _UNSAFE.search(text) or not text.isascii():
        raise ValueError(f"{text!r} is no URL: write spaces and other special characters as %XX")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is no URL: {error}") from None
    if not parts.scheme or "://" not in text:
        raise ValueError(f"{text!r} is no URL; write http://HOST[:PORT]/PATH")
    if parts.scheme != "http":
        raise ValueError(f"{text!r}: {parts.scheme} is not spoken; write http://")
    if not parts.hostname or "@" in parts.netloc or port == 0:
        raise ValueError(f"{text!r}: {_wrong_host(parts)}; write http://HOST[:PORT]/PATH")
    path = parts.path or "/"
    return Target(parts.hostname, HTTP_PORT if port is None else port, f"{path}?{parts.query}" if parts.query else path)


def _wrong_host(parts: SplitResult) -> str:
    if "@" in parts.netloc:
        return "a user can't be given"
    return "port 0 can't be asked" if parts.hostname else "there is no host"


def one_url(text: str) -> Mix:
    """A mix of one URL. Raises ValueError."""
    return Mix(text, (parse_url(text),))


def read_urls(path: Path) -> Mix:
    """A URL a line, its weight behind it if that isn't 1; empty lines and ``# comments`` are skipped.

    Raises ConfigError with what is wrong, line by line.
    """
    targets: list[Target] = []
    wrong: list[str] = []
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            targets.append(_weighted(words))
        except ValueError as error:
            wrong.append(f"{path}:{number}: {error}")
    if not targets and not wrong:
        wrong.append(f"{path}: there is no URL in it; write one a line, and its weight behind it")
    tell(wrong)
    return Mix(path.name, tuple(targets))


def _weighted(words: list[str]) -> Target:
    target = parse_url(words[0])
    if len(words) == 1:
        return target
    weight = float(words[1]) if re.fullmatch(r"\d+(\.\d+)?", words[1], re.ASCII) else 0.0
    if not 0 < weight <= MAX_WEIGHT:
        raise ValueError(f"weight: {words[1]!r} is not a number above 0 and up to {MAX_WEIGHT:g}")
    if len(words) > 2:
        raise ValueError(f"{words[2]!r} can't stand behind a URL and its weight")
    return replace(target, weight=weight)


def file_set(name: str, base_url: str) -> Mix:
    """WebStone's files below ``base_url``: html, cgi, or mixed, which is as many of each. Raises ValueError."""
    if name not in FILE_SETS:
        raise ValueError(f"{name!r} is no set of files{nearest(name, FILE_SETS)}")
    base = parse_url(base_url)
    if "?" in base.path:
        raise ValueError(f"{base_url!r}: files can't be below a query; write http://HOST[:PORT][/FOLDER]")
    folder = base.path.rstrip("/")
    targets: list[Target] = []
    if name in ("html", "mixed"):
        targets += [replace(base, path=f"{folder}/file{short}.html", weight=weight, expect=size)
                    for short, size, weight in WEBSTONE]  # fmt: skip
    if name in ("cgi", "mixed"):
        targets += [replace(base, path=f"{folder}/cgi-bin/file?size={size}", weight=weight, expect=size)
                    for _, size, weight in WEBSTONE]  # fmt: skip
    return Mix(name, tuple(targets))


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Raises ConfigError."""
    try:
        return path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None


def tell(wrong: Iterable[str]) -> None:
    """Raises ConfigError with the findings, if there are any."""
    found = list(wrong)
    if len(found) > MAX_ERRORS:
        found[MAX_ERRORS:] = [f"... and {len(found) - MAX_ERRORS} more"]
    if found:
        raise ConfigError(*found)
