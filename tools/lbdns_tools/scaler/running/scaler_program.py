"""Assembles a running scaler from its settings, and runs it until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from pathlib import Path
from typing import Final

from lbdns.process.watchdog import Watchdog, start_watchdog
from lbdns_shared import service_manager
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.shared_readers import SharedReaders
from lbdns_tools.scaler.life_cycle.fleet import Fleet
from lbdns_tools.scaler.life_cycle.server_actions import ServerActions
from lbdns_tools.scaler.life_cycle.web_probe import WebProbe
from lbdns_tools.scaler.running.rounds_csv import RoundsFile
from lbdns_tools.scaler.running.scaler_loop import ScalerLoop
from lbdns_tools.scaler.running.status_server import StatusServer
from lbdns_tools.scaler.settings.scaler_settings import ScalerSettings

log = logging.getLogger("lbdns.scaler")

SERVERS_FILE: Final = "servers.json"
LOCK_FILE: Final = "scaler.lock"


class ScalerProgram:
    """A scaler: its parts, its loop and its status server. With ``dry_run``, it changes nothing."""

    def __init__(self, settings: ScalerSettings, dry_run: bool = False) -> None:
        """Raises LbdnsError if another scaler runs with the same state_dir, or if a file cannot be used."""
        self.settings = settings
        scaler = settings.scaler
        self._lock = None if dry_run else _lock(scaler.state_dir)
        self._provider = settings.provider.make_provider()
        user_data = settings.provider.make_user_data()
        readers = SharedReaders()
        front_end, demand = settings.front_end.make_front_end(readers), settings.demand.make_demand(readers)
        probe = WebProbe(settings.probe.port, settings.probe.path, settings.probe.host, settings.benchmark)
        actions = ServerActions(self._provider, front_end, probe, user_data)
        servers = scaler.state_dir / SERVERS_FILE
        fleet = Fleet(self._provider, front_end, actions, settings.times, settings.benchmark, servers, dry_run=dry_run)
        self._rounds = RoundsFile(scaler.state_dir / scaler.csv, dry_run) if scaler.csv else None
        self.loop = ScalerLoop(scaler, settings.policy, fleet, demand, self._rounds, dry_run)
        self._watchdog: Watchdog | None = None
        self._status = StatusServer(self.loop, scaler.listen) if scaler.listen and not dry_run else None

    async def run(self, stop: asyncio.Event) -> None:
        """Scale until ``stop`` is set. Raises LbdnsError if the program cannot start."""
        try:
            if self._status:
                await self._status.start()
            log.info("scaling the farm %s with policy %s", self.settings.scaler.farm, self.settings.scaler.policy)
            service_manager.notify(service_manager.ready(os.getpid()))
            self._watchdog = start_watchdog(lambda: "")
            await self.loop.run(stop)
        finally:
            await self.close()

    async def close(self) -> None:
        """Wait for requests in progress, close all connections and files, and release the lock. The servers continue
        to run."""
        service_manager.notify(service_manager.STOPPING)
        if self._watchdog:
            self._watchdog.stop()
        if self._status:
            await self._status.stop()
        await self.loop.fleet.close()
        await self._provider.close()
        if self._rounds:
            self._rounds.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(state_dir: Path) -> int:
    """Lock the state directory, and return a file descriptor that holds the lock.

    Two scalers of one farm would undo each other's decisions. Raises LbdnsError.
    """
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LbdnsError(f"[scaler] state_dir: {error.filename}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        is_held = isinstance(error, BlockingIOError)
        what = "another lbdns-scaler is using this directory" if is_held else f"cannot be locked: {error.strerror}"
        raise LbdnsError(f"[scaler] state_dir: {state_dir}: {what}") from None
    return descriptor


async def run_program(program: ScalerProgram) -> None:
    """Run a scaler until SIGTERM or SIGINT arrives."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            stack.callback(loop.remove_signal_handler, number)
        await program.run(stop)
        log.info("stopped; the servers continue to run")
