"""The report datagram, version 1: Report, encode, open, decode. Pure: no socket, no clock, no file.

Layout (all of it is the contract between agents and collectors)::

    offset  size  field
    0       4     magic "LBR1"
    4       4     key id; zeros without a key
    8       1     n, length of the host name
    9       n     host name: the member's name, lower case
    9+n     m     body: one msgpack map
    9+n+m   16    tag; zeros without a key

Reading is in two steps so that the body of a datagram nobody signed is never decoded:
``open_envelope`` splits, the receiver checks ``Envelope.signed_by``, ``decode_body`` reads the map.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgpack

from lbdns.errors import ReportError

MAGIC: Final = b"LBR1"
MAX_DATAGRAM: Final = 1200  # bytes: fits every path without fragments
TAG_LENGTH: Final = 16
KEY_ID_LENGTH: Final = 4
NO_KEY_ID: Final = bytes(KEY_ID_LENGTH)
NO_TAG: Final = bytes(TAG_LENGTH)
MAX_INTERVAL: Final = 86_400.0  # seconds: a longer one is a mistake, and would never turn silent
MAX_METRICS: Final = 256  # what a receiver keeps of one report; a datagram can't hold many more

Kind = Literal["data", "alarm", "bye"]
KINDS: Final[tuple[Kind, ...]] = ("data", "alarm", "bye")

#: Why a datagram was dropped, in the order in which the checks are made.
REASONS: Final = ("too_long", "malformed", "unknown_host", "bad_tag", "rate", "clock", "replay")

_HEADER_LENGTH: Final = 9
_HOST = re.compile(rb"[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\Z")
_U64: Final = 2**64


@dataclass(frozen=True, slots=True)
class AgentKey:
    """The secret one host signs with: HMAC-SHA256(master key, "lbdns report v1 " + host name)."""

    key_id: bytes
    host: str
    secret: bytes = field(repr=False)

    def tag(self, signed: bytes) -> bytes:
        """The first 16 bytes of HMAC-SHA256 over everything before the tag."""
        return hmac.digest(self.secret, signed, hashlib.sha256)[:TAG_LENGTH]


@dataclass(frozen=True, slots=True)
class Report:
    """What one agent says about its host at one moment.

    ``time`` is Unix seconds, ``interval`` seconds, ``metrics`` name to finite number in the units of
    the table of metrics; a metric that couldn't be read is not in the map.
    """

    host: str
    boot: int
    seq: int
    time: float
    interval: float
    metrics: Mapping[str, float]
    kind: Kind = "data"
    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A datagram split into its fields, nothing in it believed yet."""

    host: str
    key_id: bytes
    body: bytes
    signed: bytes
    tag: bytes

    def signed_by(self, key: AgentKey) -> bool:
        """Whether the tag is ``key``'s, in a time that does not tell how much of it was right."""
        return hmac.compare_digest(self.tag, key.tag(self.signed))


def is_host_name(text: str) -> bool:
    """Whether ``text`` can be the host name of a report: lower-case letters, digits, - and _, in labels."""
    return len(text) <= 255 and _HOST.match(text.encode("ascii", "replace")) is not None


def encode(report: Report, key: AgentKey | None = None) -> bytes:
    """The datagram for ``report``, signed with ``key`` if there is one.

    Raises ValueError when it would be longer than MAX_DATAGRAM or the host name is no host name.
    """
    if not is_host_name(report.host):
        raise ValueError(f"{report.host!r} can't be the host name of a report: lower-case letters, digits, -, _")
    body: dict[str, Any] = {
        "boot": report.boot,
        "seq": report.seq,
        "time": report.time,
        "interval": report.interval,
        "kind": report.kind,
        "metrics": dict(report.metrics),
    }
    if report.kind == "alarm":
        body["alarm"] = report.alarm
    host = report.host.encode("ascii")
    key_id = key.key_id if key else NO_KEY_ID
    signed = b"".join((MAGIC, key_id, bytes((len(host),)), host, msgpack.packb(body)))
    datagram = signed + (key.tag(signed) if key else NO_TAG)
    if len(datagram) > MAX_DATAGRAM:
        raise ValueError(f"a report of {len(datagram)} bytes is over the limit of {MAX_DATAGRAM}")
    return datagram


def open_envelope(datagram: bytes) -> Envelope:
    """Split a datagram into its fields. Raises ReportError (too_long, malformed)."""
    if len(datagram) > MAX_DATAGRAM:
        raise ReportError("too_long", f"{len(datagram)} bytes, limit {MAX_DATAGRAM}")
    if len(datagram) < _HEADER_LENGTH or datagram[:4] != MAGIC:
        raise ReportError("malformed", "it does not begin with LBR1")
    body_start = _HEADER_LENGTH + datagram[8]
    body_end = len(datagram) - TAG_LENGTH
    host = datagram[_HEADER_LENGTH:body_start]
    if body_end <= body_start or not _HOST.match(host):
        raise ReportError("malformed", "no host name, or no room for a body and a tag")
    return Envelope(
        host=host.decode("ascii"),
        key_id=datagram[4:8],
        body=datagram[body_start:body_end],
        signed=datagram[:body_end],
        tag=datagram[body_end:],
    )


def decode_body(envelope: Envelope) -> Report:
    """Read the body of an envelope whose tag has been checked. Raises ReportError (malformed).

    Unknown keys are ignored, unknown metrics kept: an older collector serves newer agents.
    """
    try:
        # unpackb takes the body's length as the limit of everything in it, so nothing can be said to be larger
        body = msgpack.unpackb(envelope.body, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, UnicodeDecodeError, RecursionError) as error:
        raise ReportError("malformed", f"the body is not one msgpack map: {error}") from None
    if not isinstance(body, dict):
        raise ReportError("malformed", "the body is not a map")
    kind = body.get("kind", "data")
    if kind not in KINDS:
        raise ReportError("malformed", f"kind is {_shown(kind)}, not one of {', '.join(KINDS)}")
    alarm = body.get("alarm", "")
    if not isinstance(alarm, str):
        raise ReportError("malformed", "alarm is not a string")
    interval = _number(body, "interval")
    if not 0 < interval <= MAX_INTERVAL:
        raise ReportError("malformed", f"interval {interval} is not between 0 and {MAX_INTERVAL:.0f} s")
    return Report(
        host=envelope.host,
        boot=_unsigned(body, "boot", 0),
        seq=_unsigned(body, "seq", 1),
        time=_number(body, "time"),
        interval=interval,
        metrics=_metrics(body.get("metrics", {})),
        kind=kind,
        alarm=alarm,
    )


def _unsigned(body: Mapping[str, Any], name: str, least: int) -> int:
    value = body.get(name)
    if type(value) is not int or not least <= value < _U64:
        raise ReportError("malformed", f"{name} is {_shown(value)}, not an integer from {least}")
    return value


def _number(body: Mapping[str, Any], name: str) -> float:
    value = body.get(name)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ReportError("malformed", f"{name} is {_shown(value)}, not a finite number")
    return float(value)  # type: ignore[arg-type]


def _metrics(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > MAX_METRICS:
        raise ReportError("malformed", f"metrics is not a map of at most {MAX_METRICS}")
    for name, number in value.items():
        if type(name) is not str or type(number) not in (int, float) or not math.isfinite(number):
            raise ReportError("malformed", f"metric {_shown(name)} is {_shown(number)}, not a finite number")
    return {name: float(number) for name, number in value.items()}


def _shown(value: object) -> str:
    """A value for an error's text: repr itself would fail on what is nested a thousand deep."""
    return reprlib.repr(value)
