"""Tests of the text form of nkeys: known keys, errors that reveal nothing, and any other text."""

from __future__ import annotations

import base64
import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.nkey_format import parse_user_seed, user_key_text, user_seed_text

#: The example in the documentation of NATS
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
SECRET = bytes(range(32))


def encoded(prefix: bytes, key: bytes = SECRET) -> str:
    payload = prefix + key
    return base64.b32encode(payload + binascii.crc_hqx(payload, 0).to_bytes(2, "little")).decode().rstrip("=")


def test_a_known_seed() -> None:
    assert user_seed_text(parse_user_seed(SEED)) == SEED
    assert len(parse_user_seed(SEED)) == 32
    assert len(SEED) == 58
    assert user_key_text(bytes(32)).startswith("U")
    assert len(user_key_text(bytes(32))) == 56


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "too short"),
        ("AAAA", "too short"),
        ("secret password", "is not in base32"),
        (SEED.lower(), "is not in base32"),
        (SEED + "é", "is not in base32"),
        (SEED[:-1], "is not in base32"),
        (SEED[:-2], "checksum is wrong"),
        (SEED + "AA", "checksum is wrong"),
        (SEED[:20] + ("A" if SEED[20] != "A" else "B") + SEED[21:], "checksum is wrong"),
        (SEED[:-1] + chr(ord(SEED[-1]) + 1), "checksum is wrong"),  # only bits that fill the last letter
        (user_key_text(SECRET), "public key, which belongs in the NATS server's configuration"),
        (encoded(bytes([15 << 3])), "private key without a seed"),
        (encoded(bytes([0])), "public key of an account"),
        (encoded(bytes([14 << 3])), "public key of an operator"),
        (encoded(bytes([31 << 3])), "of an unknown kind"),
        (encoded(bytes([18 << 3, 0])), "the seed of an account, not of a user"),
        (encoded(bytes([18 << 3 | 14 >> 2, (14 & 3) << 6])), "the seed of an operator, not of a user"),
        (encoded(bytes([18 << 3 | 13 >> 2, (13 & 3) << 6])), "the seed of a server, not of a user"),
        (encoded(bytes([18 << 3 | 31 >> 2, (31 & 3) << 6])), "the seed of an unknown kind, not of a user"),
        (encoded(bytes([18 << 3 | 20 >> 2, 1])), "not of a user"),
        (encoded(bytes([18 << 3 | 20 >> 2, 0]), SECRET[:-1]), "the seed has 31 bytes, not 32"),
        (encoded(bytes([18 << 3 | 20 >> 2, 0]), SECRET + b"x"), "the seed has 33 bytes, not 32"),
    ],
)
def test_errors(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^the (key|seed)") as caught:
        parse_user_seed(text)
    assert fault in str(caught.value)
    assert SEED[4:20] not in str(caught.value)


@given(st.binary(min_size=32, max_size=32))
def test_every_seed_is_read_back(secret: bytes) -> None:
    assert parse_user_seed(user_seed_text(secret)) == secret


@given(st.text() | st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567=", min_size=50, max_size=64))
def test_any_text_is_the_only_form_of_a_seed_or_an_error(text: str) -> None:
    try:
        secret = parse_user_seed(text)
    except ValueError:
        return
    assert user_seed_text(secret) == text


@given(st.binary(min_size=32, max_size=32), st.integers(0, 57), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_a_wrong_letter_is_found(secret: bytes, place: int, letter: str) -> None:
    text = user_seed_text(secret)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        with pytest.raises(ValueError, match="the key"):
            parse_user_seed(changed)
