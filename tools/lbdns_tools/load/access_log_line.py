"""Parses lines of a web server's access log in the common or combined log format. Pure.

The common log format is ``HOST IDENT USER [DAY/MONTH/YEAR:HH:MM:SS ZONE] "REQUEST" STATUS BYTES``. The combined format
appends the referrer and the user agent. Servers write the request as clients sent it, so a request may contain any
bytes, including unescaped spaces and quotation marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"), 1
    )
}
# The request ends at the first quotation mark that a status and a length follow
_LINE: Final = re.compile(rb'[^ ]+ .*?\[([^]]+)\] "(.*?)" ([0-9]{3}) ([0-9]+|-)(?: .*)?', re.DOTALL)
_TIME: Final = re.compile(
    rb"([0-9]{1,2})/([A-Za-z]{3})/([0-9]{4}):([0-9]{2}):([0-9]{2}):([0-9]{2}) ([+-])([0-9]{2})([0-9]{2})"
)
_REQUEST: Final = re.compile(rb"([A-Z]+) (.+?)(?: HTTP/[0-9](?:\.[0-9])?)?", re.DOTALL)
_ESCAPE: Final = re.compile(rb'\\(?:x([0-9A-Fa-f]{2})|(["\\]))')
#: Bytes that a request must not contain as they are (RFC 3986, section 2), and the fragment mark
_UNSAFE: Final = re.compile(rb'[^!$-~]|["<>\\^`{|}]')
_TIMES_KEPT: Final = 1024  # log lines of the same second have the same timestamp


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request from an access log. ``time`` is the Unix time in whole seconds. ``path`` includes the query."""

    time: int
    method: str
    path: str


def split_line(line: bytes) -> tuple[int, bytes]:
    """Return the Unix time in whole seconds and the request as logged, which may be malformed.

    Raises ValueError if the line has another format.
    """
    match = _LINE.fullmatch(line.rstrip(b"\r\n"))
    if match is None:
        raise ValueError("the line is not in the common or combined log format")
    return _unix_time(match[1]), match[2]


def parse_line(line: bytes) -> LoggedRequest:
    """Parse a line of an access log.

    Bytes that a URL must not contain are percent-encoded in ``path``. Servers' escapes such as ``\\x22`` are decoded
    first. The host of an absolute URL, as proxies log it, is removed. Raises ValueError if the line has another format.
    """
    time, text = split_line(line)
    request = _REQUEST.fullmatch(text.strip(b" "))
    if request is None:
        raise ValueError("the request is not METHOD PATH")
    method, target = request[1].decode("ascii"), _ESCAPE.sub(_unescaped, request[2])
    return LoggedRequest(time, method, _path(target) if method == "GET" else "")


@lru_cache(_TIMES_KEPT)
def _unix_time(text: bytes) -> int:
    match = _TIME.fullmatch(text)
    month = _MONTHS.get(match[2].lower()) if match is not None else None
    if match is None or month is None:
        raise ValueError("the time is not DAY/MONTH/YEAR:HH:MM:SS ZONE")
    day, year, hour, minute, second = (int(match[group]) for group in (1, 3, 4, 5, 6))
    offset = timedelta(hours=int(match[8]), minutes=int(match[9])) * (-1 if match[7] == b"-" else 1)
    zone = timezone(offset)  # raises ValueError for 24 h and more
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
        return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except OverflowError:
        raise ValueError("the time is outside the calendar") from None


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode("ascii")) if match[1] else match[2]


def _path(target: bytes) -> str:
    """Return the path and query of a request target in ASCII. Raises ValueError."""
    text = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], target).decode("ascii")
    if text.startswith("/"):
        return text
    parts = urlsplit(text)
    if parts.scheme.lower() not in ("http", "https") or not parts.netloc:
        raise ValueError("the requested path does not start with a slash")
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
