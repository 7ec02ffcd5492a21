"""HAProxy as the front end: servers are added and drained at run time, and kept in its configuration file."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.front_ends.haproxy_config_file import HaproxyConfigFile, ServerLine, server_line
from lbdns_tools.scaler.front_ends.haproxy_socket import HaproxySocket, StatsAddress, socket_key
from lbdns_tools.scaler.front_ends.haproxy_tables import (
    CHECK_PASSED,
    CHECK_UNKNOWN,
    HaproxyServer,
    StatRow,
    parse_servers_state,
    parse_stat,
)

HTTP_PORT: Final = 80
FULL_WEIGHT: Final = 100  # an agent check reports percentages of the weight in the server line
CHECK_WAIT: Final = 10.0  # seconds for the first health check; by default, HAProxy checks every 2 s
CHECK_PAUSE: Final = 0.1  # seconds between two looks at its result
_NAME: Final = re.compile(r"[\w.:-]+\Z", re.ASCII)  # names of backends, in HAProxy's own alphabet
_OPTION: Final = re.compile(r"[\w.:/,=@%+()-]+\Z", re.ASCII)


def backend_key() -> str:
    """Return a field for the name of a backend."""

    def parse(table: TomlTable, name: str, default: str) -> str:
        text = table.string(name, default)
        if _NAME.match(text):
            return text
        table.wrong(name, f"must be the name of a backend, not {text!r}")
        return default

    return read.key(parse, "web")


def _options(table: TomlTable, key: str, default: str) -> str:
    words = table.string(key, default).split()
    for word in words:
        if not _OPTION.match(word):
            table.wrong(key, f"{word!r} is not an option of a server line")
            return default
    if "check" not in words:
        table.wrong(key, "must contain 'check', so that HAProxy notices when a server fails")
        return default
    if "disabled" in words:
        table.wrong(key, "must not contain 'disabled', which marks drained servers")
        return default
    if "agent-check" in words and _weight(words) < FULL_WEIGHT:
        what = f"must contain 'weight {FULL_WEIGHT}' if it contains 'agent-check'"
        why = "HAProxy rounds percentages of a smaller weight down to 0, and then sends the server no clients"
        table.wrong(key, f"{what}: {why}")
        return default
    return " ".join(words)


def _weight(words: list[str]) -> int:
    """Return the weight in the options of a server line; HAProxy's default is 1."""
    pairs = itertools.pairwise(words)
    return next((int(value) for word, value in pairs if word == "weight" and value.isdecimal()), 1)


@dataclass(frozen=True, slots=True)
class HaproxyConfig:
    """The section ``[front_end]`` if its kind is ``haproxy``."""

    socket: StatsAddress = socket_key()
    backend: str = backend_key()
    config_file: Path | None = read.optional_path()  # None: HAProxy loses the servers when it restarts
    port: int = read.integer(HTTP_PORT, 1, 65535)
    server_options: str = read.key(_options, "check")


class HaproxyFrontEnd:
    """One backend of HAProxy. If HAProxy runs on another host, ``config_file`` must be None.

    In the configuration file, servers drained by the scaler are ``disabled``, which distinguishes them from servers
    drained by operators. Without the file, a drained server is assumed to have been drained by the scaler, and a server
    in maintenance is assumed to be held by an operator.
    """

    def __init__(self, config: HaproxyConfig) -> None:
        self._config = config
        self._socket = HaproxySocket(config.socket)
        self._file = HaproxyConfigFile(config.config_file, config.backend) if config.config_file else None
        self._draining = asyncio.Lock()  # a drain must see which servers other drains have left
        self._own: set[str] = set()  # servers that this object keeps away from clients

    async def servers(self) -> Mapping[str, FrontEndServer]:
        """Return the servers of the backend. Raises FrontEndError."""
        lines = await self._lines()  # first: a change in between must not look like an operator's drain
        rows, stats = await self._rows(), await self._stats()
        return {name: self._server(row, stats.get(name), lines) for name, row in rows.items()}

    async def hold_back(self, name: str) -> None:
        """No-op: HAProxy sends no clients to a server until ``add`` has been called."""

    async def add(self, name: str, addresses: tuple[str, ...]) -> None:
        """Add a server, and send clients to it as soon as HAProxy's health check has passed.

        If HAProxy knows the server already, only its address and its line in the file are updated.
        """
        if not addresses:
            raise FrontEndError(f"{name}: the server has no address yet")
        address = str(ipaddress.ip_address(addresses[0]))
        row = (await self._rows()).get(name)
        if row is None:
            await self._register(name, address)
            await self.undrain(name)
            return
        if (row.address, row.port) != (address, self._config.port):
            where = f"addr {address} port {self._config.port}"
            await self._order("set server", name, where, "IP changed", "port changed", "no need")
        lines = await self._lines()
        if lines is not None:
            closed = lines[name].disabled if name in lines else row.in_drain or row.in_maintenance
            await self._write(name, self._line(address, closed))

    async def drain(self, name: str, reason: str) -> None:
        """Send no new clients to a server. Raises FrontEndError if no server would be left."""
        async with self._draining:
            rows = await self._rows()
            if name not in rows:
                raise FrontEndError(f"HAProxy has no server {self._path(name)}")
            others = any(row.serving for other, row in rows.items() if other != name)
            if rows[name].serving and not others:
                raise FrontEndError(f"{name}: the backend {self._config.backend} would be left without a server")
            self._own.add(name)
            await self._mark(name, disabled=True)  # first: a drain that is not noted would count as an operator's
            await self._order("set server", name, "state drain")

    async def undrain(self, name: str) -> None:
        """Send clients to a drained server again, once HAProxy's health check has passed."""
        row = (await self._rows()).get(name)
        if row is None:
            raise FrontEndError(f"HAProxy has no server {self._path(name)}")
        if row.in_maintenance:  # as after a restart: HAProxy checks drained servers, but not those in maintenance
            await self._order("set server", name, "state drain")
        await self._order("enable health", name)
        if "agent-check" in self._config.server_options.split():
            await self._order("enable agent", name)
        await self._wait_for_check(name)
        await self._order("set server", name, "state ready")
        await self._mark(name, disabled=False)
        self._own.discard(name)

    async def remove(self, name: str) -> None:
        """Put a server into maintenance and delete it. Raises FrontEndError if the server still has connections."""
        await self._write(name, None)
        row = (await self._rows()).get(name)
        if row is not None:
            self._own.add(name)
            if not row.in_maintenance:
                await self._order("set server", name, "state maint")
            await self._order("del server", name, "", "Server deleted")
        self._own.discard(name)

    def _server(
        self, row: HaproxyServer, stats: StatRow | None, lines: Mapping[str, ServerLine] | None
    ) -> FrontEndServer:
        closed = row.in_maintenance or row.in_drain
        if lines is None:
            own = row.in_drain and not row.in_maintenance
        else:  # a server that is not listed yet is being added
            own = row.name not in lines or lines[row.name].disabled
        own = own or row.name in self._own
        return FrontEndServer(
            serving=row.serving,
            drained=closed and own,
            connections=float(stats.current) if stats else None,
            held=closed and not own,
        )

    async def _register(self, name: str, address: str) -> None:
        """Add a drained server at run time, and write it to the file."""
        line = self._line(address, disabled=True)
        self._own.add(name)
        await self._order("add server", name, f"{line.address} {line.options}", "New server registered")
        await self._order("set server", name, "state drain")
        await self._write(name, line)

    async def _wait_for_check(self, name: str) -> None:
        """Wait until the health check passes. Raises FrontEndError if the check fails or has no result in time."""
        end = time.monotonic() + CHECK_WAIT
        while True:
            row = (await self._rows()).get(name)
            result = row.check_result if row else 0
            if result in CHECK_PASSED:
                return
            if result not in CHECK_UNKNOWN or time.monotonic() >= end:
                stats = (await self._stats()).get(name)
                status = stats.check_status if stats and stats.check_status else f"no result within {CHECK_WAIT:g} s"
                raise FrontEndError(f"{self._path(name)}: HAProxy's health check has not passed: {status}")
            await asyncio.sleep(CHECK_PAUSE)

    async def _rows(self) -> Mapping[str, HaproxyServer]:
        command = f"show servers state {self._config.backend}"
        reply = await self._socket.ask(command)
        try:
            return parse_servers_state(reply)
        except ValueError:
            raise self._socket.refusal(command, reply) from None

    async def _stats(self) -> Mapping[str, StatRow]:
        command = f"show stat {self._config.backend} 4 -1"  # 4: servers only
        reply = await self._socket.ask(command)
        try:
            return parse_stat(reply)
        except ValueError:
            raise self._socket.refusal(command, reply) from None

    async def _order(self, verb: str, name: str, rest: str = "", *accepted: str) -> None:
        await self._socket.order(f"{verb} {self._path(name)} {rest}".rstrip(), *accepted)

    def _path(self, name: str) -> str:
        return f"{self._config.backend}/{name}"

    def _line(self, address: str, disabled: bool) -> ServerLine:
        return server_line(address, self._config.port, self._config.server_options, disabled)

    async def _lines(self) -> Mapping[str, ServerLine] | None:
        return await asyncio.to_thread(self._file.servers) if self._file else None

    async def _write(self, name: str, line: ServerLine | None) -> None:
        if self._file:
            await asyncio.to_thread(self._file.change, name, line)

    async def _mark(self, name: str, disabled: bool) -> None:
        lines = await self._lines()
        if lines and name in lines:
            await self._write(name, replace(lines[name], disabled=disabled))
