"""Status documents as JSON bytes, made in small steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from lbdns_collector.status import Situation, beside_pools, pool_pieces

_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def to_json(document: object) -> bytes:
    """JSON on one line."""
    return _encode(document).encode("ascii")


def status_pieces(situation: Situation) -> Iterator[bytes]:
    """The document of ``build_status`` as JSON on one line, in pieces; the dearest takes about 60 us, a pool's first
    one 1.5 us a member."""
    opening = b'{"pools":['
    for pool in situation.farm.pools:
        head, members = pool_pieces(situation, pool)
        yield opening + to_json(head).removesuffix(b"}") + b',"members":['
        opening = b","
        comma = b""
        for member in members:
            yield comma + to_json(member)
            comma = b","
        yield b"]}"
    rest = to_json(beside_pools(situation)).removeprefix(b"{")
    yield (b"]," if situation.farm.pools else b'{"pools":[],') + rest


def status_json(situation: Situation) -> bytes:
    """The whole of it at once."""
    return b"".join(status_pieces(situation))
