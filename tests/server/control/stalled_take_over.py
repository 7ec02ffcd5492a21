"""Runs ``lbdns`` with a take-over that stalls after the workers have started, so that a test can kill it there."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from lbdns.cli import main
from lbdns.server.control.takeover import Predecessor


async def stall(_: Predecessor) -> Any:
    logging.getLogger("lbdns.server").info("the take-over stalls")
    await asyncio.Event().wait()


if __name__ == "__main__":
    Predecessor.reports = stall  # type: ignore[method-assign, assignment]
    main()
