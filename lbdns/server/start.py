"""``lbdns serve`` from the command line to the event loop: what has to be done while there is one process and one
thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns import program
from lbdns.errors import LbdnsError
from lbdns.server.loading import Options, load_settings
from lbdns.server.net.given import Given, activated
from lbdns.server.process import privileges
from lbdns.server.serve import DnsServer
from lbdns.server.workers import worker
from lbdns.server.workers.nursery import Nursery, open_nursery

#: s that the event loop waits for a thread that computes, such as one that reads a zone at a reload: with Python's
#: 5 ms, queries would pile up at each wake-up
SWITCH_INTERVAL: Final = 0.0005


def run(path: Path, options: Options) -> None:
    """Serve until told to stop. Raises LbdnsError when that can't be begun, or ends by itself."""
    config = load_settings(path, options)
    given = activated(config, os.environ)
    privileges.limit(config.server.user)
    _allow_many_files()
    sys.setswitchinterval(SWITCH_INTERVAL)
    nursery = None
    if config.server.workers > 1:
        privileges.read_ahead_for_workers()
        nursery = open_nursery(config.server.user, worker.run)
    asyncio.run(_serve(path, options, nursery, given))


async def _serve(path: Path, options: Options, nursery: Nursery | None, given: Sequence[Given]) -> None:
    server = DnsServer(path, options, nursery, given)
    await program.run(server, server.over)
    if server.failure:
        raise LbdnsError(server.failure)


def _allow_many_files() -> None:
    """As many as the administrator allows at all: TCP connections of 256 workers need more than the usual 1024."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
