"""TSIG (RFC 8945): checks the signature of a query, and signs the response.

All functions are pure: callers pass the time as an argument. Checking a query requires at most one HMAC over the
message, and raises no exception.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lbdns.answering.dns_constants import HEADER_LENGTH, Rcode, Type
from lbdns.config import KeyConfig
from lbdns.zones import names

FUDGE: Final = 300  # s by which two clocks may differ, as RFC 8945 section 10 recommends
_CLASS_ANY: Final = 255
_MAX_ECHOED: Final = 160  # bytes of unknown names in a response, so that it fits any client
_LEAST_MAC: Final = 10  # bytes (RFC 8945 section 5.2.2.1)
_RR_FIXED: Final = struct.Struct("!HHIH")
_MAC_FIXED: Final = struct.Struct("!HIHH")  # time (upper 16 and lower 32 bits), fudge, length of the MAC
_TIMERS: Final = struct.Struct("!HIH")
_AFTER_MAC: Final = struct.Struct("!2sHH")  # original id, error, length of other data
_ERROR: Final = struct.Struct("!HH")
_LENGTH: Final = struct.Struct("!H")


@dataclass(frozen=True, slots=True)
class TsigKey:
    """A shared secret. ``name`` and ``algorithm`` are in lower-case wire form."""

    name: bytes
    algorithm: bytes
    digest: str  # the hash's name in hashlib
    secret: bytes = field(repr=False)

    def mac(self, *parts: bytes) -> bytes:
        """Return the HMAC of the concatenated ``parts``."""
        return hmac.digest(self.secret, b"".join(parts), self.digest)


Keyring = Mapping[bytes, TsigKey]


def keyring(configured: Iterable[KeyConfig]) -> Keyring:
    """Return the configured keys, keyed by name in wire form."""
    keys = (
        TsigKey(names.from_text(k.name), names.from_text(k.algorithm), k.algorithm.removeprefix("hmac-"), k.secret)
        for k in configured
    )
    return {key.name: key for key in keys}


class TsigRecord(NamedTuple):
    """A TSIG record from a message, with its names in lower case."""

    owner: bytes
    algorithm: bytes
    time: int
    fudge: int
    mac: bytes
    original_id: bytes
    error: int
    other: bytes


@dataclass(frozen=True, slots=True)
class QuerySignature:
    """The result of checking a query's signature, with methods that sign the response.

    If ``error`` is set, the response's RCODE is NOTAUTH. If ``key`` is None, the response's TSIG record has no MAC
    (section 5.3.2).
    """

    record: TsigRecord
    key: TsigKey | None
    error: Rcode = Rcode.NOERROR

    @property
    def key_name(self) -> str:
        """The key's configured name in text form, or an empty string if the signature is not valid."""
        return names.to_text(self.record.owner) if self.key and not self.error else ""

    def sign(self, message: bytes, now: float) -> bytes:
        """Return the response ``message`` with its TSIG record appended. ``now`` is in Unix seconds."""
        return _append(message, self._response_record(message, now))

    def sign_all(self, messages: Iterable[bytes], clock: Callable[[], float]) -> Iterator[bytes]:
        """Yield the signed messages of one response; each MAC also covers the preceding MAC (section 5.3.1).

        ``clock`` returns Unix seconds. The query's signature must be valid.
        """
        key = self.key
        assert key is not None, "only a query with a valid signature receives a signed transfer"
        record = None
        for message in messages:
            if record is None:
                record = self._response_record(message, clock())
            else:
                now = int(clock())
                mac = key.mac(_LENGTH.pack(len(record.mac)), record.mac, message, _timers(now, FUDGE))
                record = record._replace(time=now, mac=mac, original_id=message[:2])
            yield _append(message, record)

    def _response_record(self, message: bytes, now: float) -> TsigRecord:
        # A client with a wrong clock gets its own time, signed, and ours in the other data (section 5.2.3)
        other = int(now).to_bytes(6, "big") if self.error == Rcode.BADTIME else b""
        record = self.record._replace(mac=b"", original_id=message[:2], error=self.error, other=other)
        if not self.error:
            record = record._replace(time=int(now), fudge=FUDGE)
        if self.key is None:
            return record
        mac = self.key.mac(_LENGTH.pack(len(self.record.mac)), self.record.mac, message, _variables(record))
        return record._replace(mac=mac)


def check_signature(message: bytes, at: int, keys: Keyring, now: float) -> QuerySignature | None:
    """Check the query's last record, the TSIG record at offset ``at``.

    Return None if the TSIG record is malformed. The checks follow the order of RFC 8945 section 5.2: key, MAC, time.
    ``now`` is in Unix seconds.
    """
    record = _read(message, at)
    if record is None:
        return None
    key = keys.get(record.owner)
    if key is None or key.algorithm != record.algorithm:
        echoed = len(record.owner) + len(record.algorithm)
        return QuerySignature(record, None, Rcode.BADKEY) if echoed <= _MAX_ECHOED else None
    whole = key.mac(_stripped(message, at, record.original_id), _variables(record))
    if not max(_LEAST_MAC, len(whole) // 2) <= len(record.mac) <= len(whole):
        return None  # section 5.2.2.1
    if not hmac.compare_digest(whole[: len(record.mac)], record.mac):
        return QuerySignature(record, None, Rcode.BADSIG)
    return QuerySignature(record, key, Rcode.BADTIME if abs(now - record.time) > record.fudge else Rcode.NOERROR)


def rcode_of(signed: QuerySignature | None) -> Rcode:
    """Return the RCODE for a checked signature (FORMERR if malformed, NOTAUTH if invalid, NOERROR if valid)."""
    if signed is None:
        return Rcode.FORMERR
    return Rcode.NOTAUTH if signed.error else Rcode.NOERROR


def _stripped(message: bytes, at: int, original_id: bytes) -> bytes:
    additionals = int.from_bytes(message[10:12], "big") - 1
    return b"".join((original_id, message[2:10], _LENGTH.pack(additionals), message[HEADER_LENGTH:at]))


def _timers(time: int, fudge: int) -> bytes:
    return _TIMERS.pack(time >> 32 & 0xFFFF, time & 0xFFFFFFFF, fudge)


def _variables(record: TsigRecord) -> bytes:
    """Return the fields of the TSIG record that the MAC covers (section 4.3.3)."""
    return b"".join((
        record.owner, _CLASS_ANY.to_bytes(2, "big"), b"\0\0\0\0", record.algorithm, _timers(record.time, record.fudge),
        _ERROR.pack(record.error, len(record.other)), record.other,
    ))  # fmt: skip


def _append(message: bytes, record: TsigRecord) -> bytes:
    """Return the message with the TSIG record appended and the record count increased.

    The record's names are uncompressed, because some implementations can't read compressed names in TSIG records.
    """
    rdata = b"".join((
        record.algorithm,
        _timers(record.time, record.fudge), _LENGTH.pack(len(record.mac)), record.mac,
        _AFTER_MAC.pack(record.original_id, record.error, len(record.other)), record.other,
    ))  # fmt: skip
    additionals = int.from_bytes(message[10:12], "big") + 1
    fixed = _RR_FIXED.pack(Type.TSIG, _CLASS_ANY, 0, len(rdata))
    return b"".join((message[:10], _LENGTH.pack(additionals), message[12:], record.owner, fixed, rdata))


def _read(message: bytes, at: int) -> TsigRecord | None:
    """Return the TSIG record at offset ``at``, or None if it is malformed or not at the end of the message."""
    owner, at = _name(message, at, pointers=True)
    if not owner or at + _RR_FIXED.size > len(message):
        return None
    rtype, rclass, ttl, length = _RR_FIXED.unpack_from(message, at)
    at += _RR_FIXED.size
    if (rtype, rclass, ttl, at + length) != (Type.TSIG, _CLASS_ANY, 0, len(message)):
        return None
    algorithm, at = _name(message, at, pointers=False)
    if not algorithm or at + _MAC_FIXED.size > len(message):
        return None
    upper, lower, fudge, mac_length = _MAC_FIXED.unpack_from(message, at)
    at += _MAC_FIXED.size
    mac = message[at : at + mac_length]
    at += mac_length
    if at + _AFTER_MAC.size > len(message):
        return None
    original_id, error, other_length = _AFTER_MAC.unpack_from(message, at)
    other = message[at + _AFTER_MAC.size :]
    if len(other) != other_length:
        return None
    return TsigRecord(owner, algorithm, upper << 32 | lower, fudge, mac, original_id, error, other)


def _name(message: bytes, at: int, pointers: bool) -> tuple[bytes, int]:
    """Return two values: the lower-cased name at offset ``at`` (empty if the name is malformed), and its end offset.

    Compression pointers must point backwards.
    """
    labels: list[bytes] = []
    length, end, start = 1, 0, at
    while at < len(message):
        size = message[at]
        if not size:
            return b"".join((*labels, names.ROOT)).lower(), end or at + 1
        if size >= 0xC0:
            target = int.from_bytes(message[at : at + 2], "big") & 0x3FFF
            if not pointers or at + 2 > len(message) or not HEADER_LENGTH <= target < start:
                break
            end = end or at + 2
            at = start = target
            continue
        length += 1 + size
        if size > names.MAX_LABEL or length > names.MAX_NAME or at + 1 + size > len(message):
            break
        labels.append(message[at : at + 1 + size])
        at += 1 + size
    return b"", 0
