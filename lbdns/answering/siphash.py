"""SipHash-2-4 (Aumasson and Bernstein, 2012), which RFC 9018 makes server cookies of. Pure."""

from __future__ import annotations

import struct
from typing import Final

KEY_LENGTH: Final = 16  # bytes
_MASK: Final = 0xFFFFFFFFFFFFFFFF
_TWO: Final = struct.Struct("<QQ")
_ONE: Final = struct.Struct("<Q")


def siphash24(key: bytes, data: bytes) -> bytes:
    """The 8 bytes of SipHash-2-4, least significant first, of ``data`` under a 16-byte ``key``."""
    k0, k1 = _TWO.unpack(key)
    state = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573)
    whole = len(data) & ~7
    last = data[whole:].ljust(7, b"\0") + bytes((len(data) & 0xFF,))
    for at in range(0, whole + 8, 8):
        (word,) = _ONE.unpack_from(data, at) if at < whole else _ONE.unpack(last)
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ 0xFF, v3, 4)
    return _ONE.pack(v0 ^ v1 ^ v2 ^ v3)


def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = (v0 + v1) & _MASK
        v1 = ((v1 << 13 | v1 >> 51) & _MASK) ^ v0
        v0 = (v0 << 32 | v0 >> 32) & _MASK
        v2 = (v2 + v3) & _MASK
        v3 = ((v3 << 16 | v3 >> 48) & _MASK) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = ((v3 << 21 | v3 >> 43) & _MASK) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = ((v1 << 17 | v1 >> 47) & _MASK) ^ v2
        v2 = (v2 << 32 | v2 >> 32) & _MASK
    return v0, v1, v2, v3
