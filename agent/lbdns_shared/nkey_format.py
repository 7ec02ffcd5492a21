"""The text form of nkeys, the Ed25519 keys of NATS: base32 of prefix bytes, the key and its CRC-16. Pure.

The format is that of github.com/nats-io/nkeys. A seed begins with S and the letter of its kind; its public key begins
with that letter alone. A client needs the seed of a user.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

SEED_LENGTH: Final = 32  # bytes of a seed, and of a public key (RFC 8032)
_SEED: Final = 18 << 3  # base32 shows the upper five bits of the first byte as S
_USER: Final = 20 << 3  # U
_PRIVATE: Final = 15 << 3  # P
#: The prefixes of keys that belong to someone else
_OTHERS: Final = {
    0: "an account", 2 << 3: "a cluster", 13 << 3: "a server", 14 << 3: "an operator", 23 << 3: "an encryption key"
}  # fmt: skip
_CHECK_LENGTH: Final = 2  # bytes
_HOW: Final = "a user's seed has 58 letters and digits, and begins with SU"


def parse_user_seed(text: str) -> bytes:
    """Return the 32 bytes of a user's seed. Raises ValueError, whose message shows no part of ``text``."""
    payload = _decode(text)
    prefix = payload[0]
    if prefix & 0xF8 != _SEED:
        raise ValueError(_what_else(prefix))
    kind = (prefix & 0x07) << 5 | payload[1] >> 3
    if kind != _USER or payload[1] & 0x07:
        raise ValueError(f"the key is the seed of {_OTHERS.get(kind, 'an unknown kind')}, not of a user; {_HOW}")
    if len(payload) != 2 + SEED_LENGTH:
        raise ValueError(f"the seed has {len(payload) - 2} bytes, not {SEED_LENGTH}; {_HOW}")
    return payload[2:]


def user_seed_text(seed: bytes) -> str:
    """Return the text form of a user's seed."""
    return _encode(bytes((_SEED | _USER >> 5, (_USER & 0x1F) << 3)) + seed)


def user_key_text(public_key: bytes) -> str:
    """Return the text form of a user's public key, which a server's configuration contains."""
    return _encode(bytes((_USER,)) + public_key)


def _decode(text: str) -> bytes:
    """Return the prefix and the key, without the CRC. Raises ValueError."""
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise ValueError(f"the key is not in base32; {_HOW}") from None
    payload, check = data[:-_CHECK_LENGTH], data[-_CHECK_LENGTH:]
    if len(payload) < 2:
        raise ValueError(f"the key is too short; {_HOW}")
    # The CRC covers whole bytes only, not the bits that fill the last letter
    if check != _checksum(payload) or _encode(payload) != text:
        raise ValueError("the key's checksum is wrong, so the key was changed or is not complete; copy it again")
    return payload


def _encode(payload: bytes) -> str:
    return base64.b32encode(payload + _checksum(payload)).decode("ascii").rstrip("=")


def _checksum(payload: bytes) -> bytes:
    return binascii.crc_hqx(payload, 0).to_bytes(_CHECK_LENGTH, "little")  # CRC-16/XMODEM


def _what_else(prefix: int) -> str:
    if prefix == _USER:
        return f"the key is a public key, which belongs in the NATS server's configuration; {_HOW}"
    if prefix == _PRIVATE:
        return f"the key is a private key without a seed; {_HOW}"
    if prefix in _OTHERS:
        return f"the key is the public key of {_OTHERS[prefix]}; {_HOW}"
    return f"the key is of an unknown kind; {_HOW}"
