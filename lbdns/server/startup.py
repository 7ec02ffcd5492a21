"""Starts ``lbdns serve``: first takes the steps that require a single-threaded process, then runs the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from pathlib import Path
from typing import Final

from lbdns.config.service_credentials import CREDENTIALS
from lbdns.process import privileges, program
from lbdns.server.dns_server import DnsServer
from lbdns.server.server_configuration import ServeOptions, read_settings
from lbdns.server.workers import worker
from lbdns.server.workers.fork_server import ForkServer, start_fork_servers
from lbdns.sockets.inherited_sockets import sockets_from_service_manager
from lbdns_shared import log_writer
from lbdns_shared.errors import LbdnsError

#: s after which a busy thread, such as one that reads a zone, lets the event loop run: with Python's default of 5 ms,
#: queries would pile up at each wake-up
SWITCH_INTERVAL: Final = 0.0005


def run(path: Path, options: ServeOptions) -> None:
    """Run the DNS server until a signal stops it. Raises LbdnsError if the server cannot start or fails."""
    CREDENTIALS.use(os.environ)
    config = read_settings(path, options)
    inherited = sockets_from_service_manager(config, os.environ)
    log_writer.end_threads()  # warnings about the configuration may have started one
    privileges.limit(config.server.user)
    _allow_many_files()
    sys.setswitchinterval(SWITCH_INTERVAL)
    fork_servers: tuple[ForkServer, ...] = ()
    if config.server.workers > 1:
        privileges.read_ahead_for_workers()
        fork_servers = start_fork_servers(config.server.user, worker.run)

    async def serve() -> None:
        server = DnsServer(path, options, fork_servers, inherited)
        await program.run(server, server.over)
        if server.failure:
            raise LbdnsError(server.failure)

    asyncio.run(serve())


def _allow_many_files() -> None:
    """Raise the limit on open files to the permitted maximum: with 256 workers, more than 1024 files may be open."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
