"""TSIG (RFC 8945): checking the signature of a query, and signing what is said to it. Pure: time is an argument.

A query costs one HMAC over its own length, whatever it holds, and no exception.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from lbdns import names
from lbdns.answering.constants import HEADER_LENGTH, Rcode, Type
from lbdns.config import KeyConfig

FUDGE: Final = 300  # s that clocks may differ, as RFC 8945 section 10 recommends
_CLASS_ANY: Final = 255
_MAX_ECHOED: Final = 160  # bytes of names that we don't know: so the response fits whatever client asks
_LEAST_MAC: Final = 10  # bytes (RFC 8945 section 5.2.2.1)
_RR_FIXED: Final = struct.Struct("!HHIH")
_MAC_FIXED: Final = struct.Struct("!HIHH")  # time (upper 16 and lower 32 bits), fudge, length of the MAC
_TIMERS: Final = struct.Struct("!HIH")
_AFTER_MAC: Final = struct.Struct("!2sHH")  # original id, error, length of other data
_ERROR: Final = struct.Struct("!HH")
_LENGTH: Final = struct.Struct("!H")


class TsigError(IntEnum):
    """What a TSIG record says is wrong (RFC 8945 section 3)."""

    NOERROR = 0
    BADSIG = 16
    BADKEY = 17
    BADTIME = 18


@dataclass(frozen=True, slots=True)
class Key:
    """A shared secret; ``name`` and ``algorithm`` in lower-case wire form."""

    name: bytes
    algorithm: bytes
    digest: str  # the hash's name in hashlib
    secret: bytes = field(repr=False)

    def mac(self, *parts: bytes) -> bytes:
        return hmac.digest(self.secret, b"".join(parts), self.digest)


Keyring = Mapping[bytes, Key]


def make_key(config: KeyConfig) -> Key:
    digest = config.algorithm.removeprefix("hmac-")
    return Key(names.from_text(config.name), names.from_text(config.algorithm), digest, config.secret)


def keyring(configured: Iterable[KeyConfig]) -> Keyring:
    """The configured keys, by their names in wire form."""
    return {key.name: key for key in map(make_key, configured)}


@dataclass(frozen=True, slots=True)
class _Record:
    """A TSIG record as it stands in a message; names in lower case."""

    owner: bytes
    algorithm: bytes
    time: int
    fudge: int
    mac: bytes
    original_id: bytes
    error: int
    other: bytes


@dataclass(frozen=True, slots=True)
class Signed:
    """The signature of a query, checked: how what is said to it is to be signed.

    With an ``error`` the response is NOTAUTH. Without a ``key`` it can't be signed, but says the error (section 5.3.2).
    """

    owner: bytes
    algorithm: bytes
    key: Key | None
    mac: bytes
    time: int
    fudge: int
    error: TsigError = TsigError.NOERROR

    @property
    def key_name(self) -> str:
        """What the configuration calls the key that the query is truly signed with; empty if it isn't."""
        return names.to_text(self.owner) if self.key and not self.error else ""

    def sign(self, message: bytes, now: float) -> bytes:
        """``message``, a response, with its TSIG; ``now`` in Unix seconds."""
        return _append(message, self._response_record(message, now))

    def sign_all(self, messages: Iterable[bytes], clock: Callable[[], float]) -> Iterator[bytes]:
        """Several messages as one response, each signed and bound to the one before (section 5.3.1)."""
        key = self.key
        assert key is not None, "a stream is sent to those alone whose signature is good"
        before = b""
        for message in messages:
            if before:
                now = int(clock())
                mac = key.mac(_LENGTH.pack(len(before)), before, message, _timers(now, FUDGE))
                record = _Record(key.name, key.algorithm, now, FUDGE, mac, message[:2], 0, b"")
            else:
                record = self._response_record(message, clock())
            before = record.mac
            yield _append(message, record)

    def _response_record(self, message: bytes, now: float) -> _Record:
        # A client whose clock is wrong finds its own time signed and ours beside it (section 5.2.3)
        lost = self.error is TsigError.BADTIME
        time, fudge = (self.time, self.fudge) if self.error else (int(now), FUDGE)
        other = int(now).to_bytes(6, "big") if lost else b""
        unsigned = _Record(self.owner, self.algorithm, time, fudge, b"", message[:2], self.error, other)
        if self.key is None:
            return unsigned
        mac = self.key.mac(_LENGTH.pack(len(self.mac)), self.mac, message, _variables(unsigned))
        return _Record(self.owner, self.algorithm, time, fudge, mac, message[:2], self.error, other)


def check(message: bytes, at: int, keys: Keyring, now: float) -> Signed | None:
    """Check the TSIG at ``at``, the last record of the query ``message``; None if it is malformed (FORMERR).

    In the order of RFC 8945 section 5.2: key, MAC, time.
    """
    record = _read(message, at)
    if record is None:
        return None
    key = keys.get(record.owner)
    if key is None or key.algorithm != record.algorithm:
        echoed = len(record.owner) + len(record.algorithm)
        return _unsigned(record, TsigError.BADKEY) if echoed <= _MAX_ECHOED else None
    whole = key.mac(_stripped(message, at, record.original_id), _variables(record))
    if not max(_LEAST_MAC, len(whole) // 2) <= len(record.mac) <= len(whole):
        return None  # section 5.2.2.1
    if not hmac.compare_digest(whole[: len(record.mac)], record.mac):
        return _unsigned(record, TsigError.BADSIG)
    error = TsigError.BADTIME if abs(now - record.time) > record.fudge else TsigError.NOERROR
    return Signed(record.owner, record.algorithm, key, record.mac, record.time, record.fudge, error)


def _unsigned(record: _Record, error: TsigError) -> Signed:
    return Signed(record.owner, record.algorithm, None, b"", record.time, record.fudge, error)


def rcode_of(signed: Signed | None) -> Rcode:
    """What a query is refused with because of its TSIG; NOERROR if it isn't."""
    if signed is None:
        return Rcode.FORMERR
    return Rcode.NOTAUTH if signed.error else Rcode.NOERROR


def _stripped(message: bytes, at: int, original_id: bytes) -> bytes:
    """The message as it was before it was signed."""
    additionals = int.from_bytes(message[10:12], "big") - 1
    return b"".join((original_id, message[2:10], _LENGTH.pack(additionals), message[HEADER_LENGTH:at]))


def _timers(time: int, fudge: int) -> bytes:
    return _TIMERS.pack(time >> 32 & 0xFFFF, time & 0xFFFFFFFF, fudge)


def _variables(record: _Record) -> bytes:
    """What is signed of the record itself (section 4.3.3)."""
    return b"".join((
        record.owner, _CLASS_ANY.to_bytes(2, "big"), b"\0\0\0\0", record.algorithm, _timers(record.time, record.fudge),
        _ERROR.pack(record.error, len(record.other)), record.other,
    ))  # fmt: skip


def _append(message: bytes, record: _Record) -> bytes:
    """The message with the record behind it, counted. Its names aren't compressed: others may not follow them."""
    rdata = b"".join((
        record.algorithm,
        _timers(record.time, record.fudge), _LENGTH.pack(len(record.mac)), record.mac,
        _AFTER_MAC.pack(record.original_id, record.error, len(record.other)), record.other,
    ))  # fmt: skip
    additionals = int.from_bytes(message[10:12], "big") + 1
    fixed = _RR_FIXED.pack(Type.TSIG, _CLASS_ANY, 0, len(rdata))
    return b"".join((message[:10], _LENGTH.pack(additionals), message[12:], record.owner, fixed, rdata))


def _read(message: bytes, at: int) -> _Record | None:
    """The TSIG record at ``at`` if it is well-formed and ends the message."""
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
    return _Record(owner, algorithm, upper << 32 | lower, fudge, mac, original_id, error, other)


def _name(message: bytes, at: int, pointers: bool) -> tuple[bytes, int]:
    """The name at ``at`` in lower case and where it ends; empty if it is none.

    Each pointer has to lead to before everything read so far, so that none is followed twice.
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
