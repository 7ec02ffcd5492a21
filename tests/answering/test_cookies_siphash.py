"""Tests of SipHash-2-4 with its authors' test vectors."""

from __future__ import annotations

import pytest

from lbdns.answering.cookies import SECRET, siphash24

KEY = bytes(range(SECRET))
#: Appendix A of the SipHash paper, and vectors_sip64 of the reference implementation: input 00 01 02 ... of a length
VECTORS = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    2: "5a4fa9d909806c0d",
    3: "2d7efbd796666785",
    4: "b7877127e09427cf",
    5: "8da699cd64557618",
    6: "cee3fe586e46c9cb",
    7: "37d1018bf50002ab",
    8: "6224939a79f5f593",
    15: "e545be4961ca29a1",
    63: "724506eb4c328a95",
}


@pytest.mark.parametrize("length", VECTORS)
def test_the_authors_vectors(length: int) -> None:
    assert siphash24(KEY, bytes(range(length))).hex() == VECTORS[length]


def test_the_key_and_every_byte_count() -> None:
    data = bytes(range(20))
    hashes = {siphash24(KEY, data)}
    for at in range(SECRET):
        hashes.add(siphash24(bytes(byte ^ (i == at) for i, byte in enumerate(KEY)), data))
    for at in range(len(data)):
        hashes.add(siphash24(KEY, bytes(byte ^ (i == at) for i, byte in enumerate(data))))
    hashes |= {siphash24(KEY, data + bytes(count)) for count in range(1, 10)}
    assert len(hashes) == 1 + SECRET + len(data) + 9
