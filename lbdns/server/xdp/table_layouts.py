"""The layouts of the tables in ``native/xdp/tables.h``, in bytes. Pure.

Integers are in the processor's byte order, which is little-endian, unless they are copied from or to packets.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

KINDS: Final = 6  # kinds of response without a cookie, see lbdns.answering.query_shapes
LONGEST_QUESTION: Final = 96  # bytes: a name of 92 bytes, type and class
LONGEST_TAIL: Final = 496
SHORTEST_TAIL: Final = 8  # unless it is empty, since the program copies 8 bytes at once
HEAD: Final = 10
VARIANT: Final = 512
NO_PLAN: Final = 0xFFFFFFFF
LEASE: Final = struct.Struct("<Q")  # at the beginning of the configuration

#: The first counters of each CPU, in order
TOTALS: Final = (
    "answered", "rate_limit_dropped", "rate_limit_cut", "passed", "wrong_checksum", "no_plan", "no_room"
)  # fmt: skip
FIRST_COUNTER: Final = 8  # the first counter for questions and members

_ADDRESS_KEY: Final = struct.Struct("<16sIIHH")
_ADDRESS: Final = struct.Struct("<6sH")
_QUESTION_KEY: Final = struct.Struct(f"<{LONGEST_QUESTION}sQ")
_QUESTION: Final = struct.Struct(f"<{KINDS}IIIII")
_VARIANT: Final = struct.Struct(f"<{HEAD}sHHH{LONGEST_TAIL}s")
_CONFIGURATION: Final = struct.Struct(f"<QQ16s4sIIIIBBH{KINDS}I")
_NETWORK_KEY: Final = struct.Struct("<IB16s3x")
_DONT_FRAGMENT: Final = 0x4000
_FAMILY_BITS: Final = 8
_CLASS: Final = 5  # bytes at the end of a question: the root, the type and the class

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class LimitRules:
    """The rate limit, as in the configuration: ``limit`` is per second, and 0 means no limit."""

    limit: int
    slip: int
    ipv4_prefix: int
    ipv6_prefix: int
    exempt: Sequence[Network] = ()


@dataclass(frozen=True)
class Question:
    """What the program has to know about a question. ``variants`` are indexes, by kind."""

    variants: tuple[int, ...]
    plan: int
    members: int
    counter: int
    member_counters: int

    def packed(self) -> bytes:
        return _QUESTION.pack(*self.variants, self.plan, self.members, self.counter, self.member_counters)


def address_key(host: str, port: int, interface: int, vlan: int) -> bytes:
    address = ipaddress.ip_address(host)
    return _ADDRESS_KEY.pack(address.packed, address.version, interface, socket_order(port), vlan)


def address_value(mac: bytes) -> bytes:
    return _ADDRESS.pack(mac, 0)


def socket_order(number: int) -> int:
    """Return a number of 16 bits whose bytes in memory are in network order."""
    return int.from_bytes(number.to_bytes(2, "big"), "little")


def question_key(question: bytes) -> bytes:
    """Return the key of a question in lower case. Raises ValueError if the program cannot find such a question."""
    if len(question) > LONGEST_QUESTION:
        raise ValueError(f"the question is longer than {LONGEST_QUESTION} bytes")
    if question.find(0) != len(question) - _CLASS or question != question.lower():
        raise ValueError("the question contains a zero byte in a label, or an upper-case letter")
    return _QUESTION_KEY.pack(question, len(question))


def variant_value(head: bytes, tail: bytes) -> bytes:
    """Return the value of a precompiled response. Raises ValueError if the program cannot send such a response."""
    if len(head) != HEAD:
        raise ValueError(f"a head must have {HEAD} bytes")
    if len(tail) > LONGEST_TAIL or 0 < len(tail) < SHORTEST_TAIL:
        raise ValueError(f"a tail must be empty or have {SHORTEST_TAIL} to {LONGEST_TAIL} bytes")
    return _VARIANT.pack(head, len(tail), word_sum(head), word_sum(tail), tail)


def word_sum(content: bytes) -> int:
    """Return the one's complement sum of 16-bit words in the processor's byte order (RFC 1071)."""
    padded = content + b"\0" * (len(content) % 2)
    total: int = sum(struct.unpack(f"<{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def configuration_value(
    rules: LimitRules,
    seed: int,
    counters: int,
    truncated: Sequence[int],
    *,
    ttl: int,
    hop_limit: int,
    dont_fragment: bool,
) -> bytes:
    """Return the configuration, with a lease that has ended."""
    return _CONFIGURATION.pack(
        0, seed,
        _mask(6, rules.ipv6_prefix), _mask(4, rules.ipv4_prefix),
        rules.limit, rules.slip, len(rules.exempt),
        counters, ttl, hop_limit, socket_order(_DONT_FRAGMENT if dont_fragment else 0), *truncated,
    )  # fmt: skip


def _mask(version: int, prefix: int) -> bytes:
    bits = 32 if version == 4 else 128
    return ((1 << bits) - (1 << bits - prefix)).to_bytes(bits // 8, "big")


def network_key(network: Network) -> bytes:
    return _NETWORK_KEY.pack(_FAMILY_BITS + network.prefixlen, network.version, network.network_address.packed)
