"""The request mix: a single URL, the weighted URLs in a file, or WebStone's set of files."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from pathlib import Path
from random import Random
from typing import Final, Literal, get_args
from urllib.parse import SplitResult, urlsplit

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

RequestOrder = Literal["log", "even", "random"]

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443
MAX_WEIGHT: Final = 1e9  # the sum of a million such weights is still exact to a thousandth
MAX_ERRORS: Final = 10  # reported per file; further errors are mostly the same

#: WebStone's files: name in the path, bytes (decimal, as in the study), weight
WEBSTONE: Final = (
    ("500", 500, 350.0), ("5k", 5_000, 500.0), ("50k", 50_000, 140.0), ("500k", 500_000, 9.0), ("5m", 5_000_000, 1.0),
)  # fmt: skip
#: The only page in the published tables of 1999, because the 5 MB file of the whole set made the results erratic
PAGE_50K: Final = (("50k", 50_000, 1.0),)
FILE_SETS: Final = ("html", "cgi", "mixed")
ORDERS: Final[tuple[RequestOrder, ...]] = get_args(RequestOrder)

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A target URL, its weight in a request mix, and the expected length of the response body."""

    host: str  # a name, or an address without brackets
    port: int
    path: str  # with the query
    weight: float = 1.0
    expect: int | None = None  # bytes of a correct response's body, if known
    tls: bool = False

    @property
    def authority(self) -> str:
        """The value of the Host header (RFC 9110 section 7.2), which omits the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (HTTPS_PORT if self.tls else HTTP_PORT) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class RequestMix:
    """Targets that are selected at random in proportion to their weights, or in a fixed order.

    In the order ``even``, each target is selected in turn. In the order ``log``, ``sequence`` contains the index of
    each target that is selected. A fixed order is repeated when it ends. ``targets`` is never empty.
    """

    name: str
    targets: tuple[RequestTarget, ...]
    order: RequestOrder = "random"
    sequence: array[int] = field(default_factory=lambda: array("L"))

    def chooser(self, chance: Random, part: int = 0, parts: int = 1) -> Callable[[], RequestTarget]:
        """Return a function that selects a target in at most O(log n) time for n targets.

        In a fixed order, the function selects every ``parts``-th target, beginning with number ``part``.
        """
        targets = self.targets
        if len(targets) == 1:
            only = targets[0]
            return lambda: only
        if self.order != "random":
            sequence = self.sequence if self.order == "log" else range(len(targets))
            numbers, length = count(part, parts).__next__, len(sequence)
            return lambda: targets[sequence[numbers() % length]]
        sums = list(accumulate(target.weight for target in targets))
        total, last, draw = sums[-1], len(targets) - 1, chance.random
        # A rounded product could exceed the last sum
        return lambda: targets[min(bisect_right(sums, draw() * total), last)]


def parse_url(text: str) -> RequestTarget:
    """Parse ``http[s]://HOST[:PORT][/PATH][?QUERY]``. Raises ValueError."""
    if _UNSAFE.search(text) or not text.isascii():
        raise ValueError(f"{text!r} is not a valid URL; encode spaces and other special characters as %XX")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not a valid URL: {error}") from None
    if not parts.scheme or "://" not in text:
        raise ValueError(f"{text!r} is not a valid URL; write http://HOST[:PORT]/PATH")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text!r}: the scheme {parts.scheme} is not supported; use http:// or https://")
    if not parts.hostname or "@" in parts.netloc or port == 0:
        raise ValueError(f"{text!r}: {_wrong_host(parts)}; write http://HOST[:PORT]/PATH")
    path = parts.path or "/"
    tls = parts.scheme == "https"
    if port is None:
        port = HTTPS_PORT if tls else HTTP_PORT
    return RequestTarget(parts.hostname, port, f"{path}?{parts.query}" if parts.query else path, tls=tls)


def _wrong_host(parts: SplitResult) -> str:
    if "@" in parts.netloc:
        return "the URL must not contain a user name"
    return "the port in the URL must not be 0" if parts.hostname else "the host is missing"


def one_url(text: str) -> RequestMix:
    """Return a request mix with a single URL. Raises ValueError."""
    return RequestMix(text, (parse_url(text),))


def read_urls(path: Path) -> RequestMix:
    """Read a file with one URL and an optional weight per line, skipping empty lines and ``# comments``.

    Raises ConfigError with one error per invalid line.
    """
    targets: list[RequestTarget] = []
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
        wrong.append(f"{path}: the file contains no URL; write one URL per line, optionally followed by a weight")
    raise_findings(wrong)
    return RequestMix(path.name, tuple(targets))


def _weighted(words: list[str]) -> RequestTarget:
    target = parse_url(words[0])
    if len(words) == 1:
        return target
    weight = float(words[1]) if re.fullmatch(r"\d+(\.\d+)?", words[1], re.ASCII) else 0.0
    if not 0 < weight <= MAX_WEIGHT:
        raise ValueError(f"the weight must be a number above 0 and at most {MAX_WEIGHT:g}, not {words[1]!r}")
    if len(words) > 2:
        raise ValueError(f"only a URL and a weight are allowed; remove {words[2]!r}")
    return replace(target, weight=weight)


def file_set(name: str, base_url: str, files: Sequence[tuple[str, int, float]] = WEBSTONE) -> RequestMix:
    """Return WebStone's set of files under ``base_url``: html, cgi, or mixed (half of each). Raises ValueError.

    ``files`` lists each file's name in the path, its size in bytes, and its weight.
    """
    if name not in FILE_SETS:
        raise ValueError(f"there is no set of files named {name!r}{nearest(name, FILE_SETS)}")
    base = parse_url(base_url)
    if "?" in base.path:
        raise ValueError(f"{base_url!r}: the base URL must have no query string; write http://HOST[:PORT][/PATH]")
    folder = base.path.rstrip("/")
    targets: list[RequestTarget] = []
    if name in ("html", "mixed"):
        targets += [replace(base, path=f"{folder}/file{short}.html", weight=weight, expect=size)
                    for short, size, weight in files]  # fmt: skip
    if name in ("cgi", "mixed"):
        targets += [replace(base, path=f"{folder}/cgi-bin/file?size={size}", weight=weight, expect=size)
                    for _, size, weight in files]  # fmt: skip
    return RequestMix(name, tuple(targets))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file. Raises ConfigError."""
    try:
        return path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None


def raise_findings(found: list[str]) -> None:
    """Raise ConfigError with the errors in ``found``, if there are any."""
    if len(found) > MAX_ERRORS:
        found[MAX_ERRORS:] = [f"... and {len(found) - MAX_ERRORS} more"]
    if found:
        raise ConfigError(*found)
