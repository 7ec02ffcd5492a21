"""Encodes, opens and decodes report datagrams, version 1. Pure.

The layout of a datagram::

    offset  size  field
    0       4     magic "LBR1"
    4       4     key id; zeros without a key
    8       1     n, length of the host name
    9       n     host name: the member's name, lower case
    9+n     m     body: one msgpack map
    9+n+m   16    tag; zeros without a key

A receiver works in two steps, so that it never decodes the body of a forged datagram. First, ``open_envelope`` splits
the datagram. Then, if ``Envelope.signed_by`` accepts the tag, ``decode_body`` reads the map.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr as brief_repr  # repr itself fails on a value with a thousand levels of nesting
from typing import Any, Final, Literal, NamedTuple

import msgpack

from lbdns_shared.errors import ReportError

MAGIC: Final = b"LBR1"
MAX_DATAGRAM: Final = 1200  # bytes; short enough that no path fragments the datagram
TAG_LENGTH: Final = 16
KEY_ID_LENGTH: Final = 4
NO_KEY_ID: Final = bytes(KEY_ID_LENGTH)
NO_TAG: Final = bytes(TAG_LENGTH)
MAX_INTERVAL: Final = 86_400.0  # seconds; a longer interval is a mistake, and its host would never count as silent
MIN_INTERVAL: Final = 0.02  # seconds; a collector accepts no more than 50 reports a second from one host
#: An alarm that begins with this text states that the web server has failed; other alarms state that it is overloaded
WEB_SERVER_FAILED: Final = "web server failed"
MAX_ADDRESSES: Final = 8  # of a host that joins a pool
MAX_METRICS: Final = 256  # a datagram has no room for many more

Kind = Literal["data", "alarm", "bye"]
KINDS: Final[tuple[Kind, ...]] = ("data", "alarm", "bye")

#: The reasons for dropping a datagram, in the order of the checks.
REASONS: Final = (
    "too_long", "malformed", "wrong_subject", "unknown_host", "bad_tag", "rate", "clock", "duplicate", "replay",
    "join_pool", "join_name", "join_address", "join_full",
)  # fmt: skip

_HEADER_LENGTH: Final = 9
_HOST = re.compile(rb"[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*\Z")


@dataclass(frozen=True)
class AgentKey:
    """The secret key with which one host signs its reports: HMAC-SHA256(master key, "lbdns report v1 " + host name)."""

    key_id: bytes
    host: str
    secret: bytes = field(repr=False)

    def tag(self, signed: bytes) -> bytes:
        """Return the tag: the first 16 bytes of the HMAC-SHA256 of everything that precedes the tag."""
        return hmac.digest(self.secret, signed, hashlib.sha256)[:TAG_LENGTH]


class Report(NamedTuple):
    """One agent's report about its host.

    ``time`` is in Unix seconds; ``interval`` is in seconds. ``metrics`` maps names to finite numbers, in the units of
    the metric catalogue; metrics that the agent couldn't measure are omitted. A host that is not in the configuration
    asks to join ``pool`` with the addresses in ``addresses``; both fields may be empty.
    """

    host: str
    boot: int
    seq: int
    time: float
    interval: float
    metrics: Mapping[str, float]
    kind: Kind = "data"
    alarm: str = ""
    pool: str = ""
    addresses: tuple[str, ...] = ()


class Envelope(NamedTuple):
    """A datagram, split into its fields. The fields are not authenticated yet."""

    host: str
    key_id: bytes
    body: bytes
    signed: bytes
    tag: bytes

    def signed_by(self, key: AgentKey) -> bool:
        """Return whether the tag was made with ``key``. The comparison takes constant time."""
        return hmac.compare_digest(self.tag, key.tag(self.signed))


def is_host_name(text: str) -> bool:
    """Return whether ``text`` is a valid host name for a report: labels of lower-case letters, digits, - and _."""
    return len(text) <= 255 and _HOST.match(text.encode("ascii", "replace")) is not None


def encode(report: Report, key: AgentKey | None = None) -> bytes:
    """Return the datagram for ``report``, signed with ``key`` unless ``key`` is None.

    Raises ValueError if the host name is not valid or the datagram exceeds MAX_DATAGRAM bytes.
    """
    if not is_host_name(report.host):
        raise ValueError(
            f"{report.host!r} is not a valid host name: use only lower-case letters, digits, '-', '_' and '.'"
        )
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
    if report.pool:
        body["pool"] = report.pool
    if report.addresses:
        body["addresses"] = list(report.addresses)
    host = report.host.encode("ascii")
    key_id = key.key_id if key else NO_KEY_ID
    signed = b"".join((MAGIC, key_id, bytes((len(host),)), host, msgpack.packb(body)))
    datagram = signed + (key.tag(signed) if key else NO_TAG)
    if len(datagram) > MAX_DATAGRAM:
        raise ValueError(f"the report has {len(datagram)} bytes; the limit is {MAX_DATAGRAM}")
    return datagram


def open_envelope(datagram: bytes) -> Envelope:
    """Split a datagram into its fields. Raises ReportError (too_long, malformed)."""
    if len(datagram) > MAX_DATAGRAM:
        raise ReportError("too_long", f"the datagram has {len(datagram)} bytes; the limit is {MAX_DATAGRAM}")
    if len(datagram) < _HEADER_LENGTH or datagram[:4] != MAGIC:
        raise ReportError("malformed", "the datagram does not begin with LBR1")
    body_start = _HEADER_LENGTH + datagram[8]
    body_end = len(datagram) - TAG_LENGTH
    host = datagram[_HEADER_LENGTH:body_start]
    if body_end <= body_start or not _HOST.match(host):
        raise ReportError(
            "malformed", "the host name is not valid, or the datagram is too short to contain a body and a tag"
        )
    return Envelope(
        host=host.decode("ascii"),
        key_id=datagram[4:8],
        body=datagram[body_start:body_end],
        signed=datagram[:body_end],
        tag=datagram[body_end:],
    )


def decode_body(envelope: Envelope) -> Report:
    """Return the report in the body of an envelope. Call this function only after checking the envelope's tag.

    Raises ReportError (malformed).

    Ignores unknown keys and keeps unknown metrics, so that an older collector accepts reports from newer agents.

    """
    try:
        # unpackb limits every length in the body to the length of the body itself
        body = msgpack.unpackb(envelope.body, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, UnicodeDecodeError, RecursionError) as error:
        raise ReportError("malformed", f"the body is not a valid msgpack map: {error}") from None
    if not isinstance(body, dict):
        raise ReportError("malformed", "the body is not a map")
    kind = body.get("kind", "data")
    if kind not in KINDS:
        raise ReportError("malformed", f"kind must be one of {', '.join(KINDS)}, not {brief_repr(kind)}")
    alarm = body.get("alarm", "")
    if not isinstance(alarm, str):
        raise ReportError("malformed", "alarm must be a string")
    pool = body.get("pool", "")
    if not isinstance(pool, str):
        raise ReportError("malformed", "pool must be a string")
    interval = _number(body, "interval")
    if not 0 < interval <= MAX_INTERVAL:
        raise ReportError("malformed", f"interval must be between 0 and {MAX_INTERVAL:.0f} s, not {interval}")
    return Report(
        host=envelope.host,
        boot=_unsigned(body, "boot", 0),
        seq=_unsigned(body, "seq", 1),
        time=_number(body, "time"),
        interval=interval,
        metrics=_metrics(body.get("metrics", {})),
        kind=kind,
        alarm=alarm,
        pool=pool,
        addresses=_addresses(body["addresses"]) if "addresses" in body else (),
    )


def _addresses(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_ADDRESSES or not all(isinstance(item, str) for item in value):
        raise ReportError("malformed", f"addresses must be a list of at most {MAX_ADDRESSES} strings")
    return tuple(value)


def _unsigned(body: Mapping[str, Any], name: str, least: int) -> int:
    value = body.get(name)
    if type(value) is not int or not least <= value < 2**64:
        raise ReportError("malformed", f"{name} must be an integer of at least {least}, not {brief_repr(value)}")
    return value


def _number(body: Mapping[str, Any], name: str) -> float:
    value = body.get(name)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ReportError("malformed", f"{name} must be a finite number, not {brief_repr(value)}")
    return float(value)  # type: ignore[arg-type]


def _metrics(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > MAX_METRICS:
        raise ReportError("malformed", f"metrics must be a map with at most {MAX_METRICS} entries")
    # In place and in one loop: this is the most expensive check of a report
    for name, number in value.items():
        kind = type(number)
        if type(name) is not str or (kind is not float and kind is not int) or not math.isfinite(number):
            raise ReportError(
                "malformed", f"metric {brief_repr(name)} must be a finite number, not {brief_repr(number)}"
            )
        if kind is int:
            value[name] = float(number)
    return value
