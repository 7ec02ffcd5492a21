"""Status documents as JSON bytes: of a small farm at once, of a large one in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from lbdns_collector.status import Situation, build_status

LARGE: Final = 500  # members; beyond, a document takes over 5 ms that answers would have to wait


def to_json(document: object) -> bytes:
    """JSON on one line."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def status_json(situation: Situation) -> bytes:
    """The document of ``build_status`` as JSON on one line."""
    return to_json(build_status(situation))


def is_large(situation: Situation) -> bool:
    return sum(len(pool.members) for pool in situation.farm.pools) > LARGE


async def status_json_async(situation: Situation) -> bytes:
    """The whole document, without holding up the event loop."""
    if is_large(situation):
        return await asyncio.to_thread(status_json, situation)
    return status_json(situation)
