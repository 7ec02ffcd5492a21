"""nginx as the front end: an upstream file, which nginx tests and reloads after each change."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.process.atomic_file import replace_file
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.nginx_status import StubStatusPage, url_key
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.front_ends.nginx_upstream_file import HEADER, UpstreamServer, parse_upstream, upstream_text

HTTP_PORT: Final = 80
COMMAND_TIMEOUT: Final = 30.0  # seconds for a test or a reload
QUOTED: Final = 300  # characters of a command's output in an error message
_OPTION: Final = re.compile(r"[\w.:/=-]+\Z", re.ASCII)


def _command(default: tuple[str, ...]) -> tuple[str, ...]:
    def parse(table: TomlTable, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        words = table.strings(name, default)
        if words and all(words):
            return words
        table.wrong(name, f"must be a program and its arguments, such as {list(default)}")
        return default

    return read.key(parse, default)


def _options(table: TomlTable, key: str, default: str) -> str:
    words = table.string(key, default).split()
    for word in words:
        if not _OPTION.match(word) or word == "down":
            table.wrong(key, f"{word!r} is not an option of a server line, or is set by lbdns-scaler")
            return default
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class NginxConfig:
    """The section ``[front_end]`` of kind ``nginx``."""

    upstream_file: Path = read.path("/etc/nginx/lbdns-scaler.conf")
    port: int = read.integer(HTTP_PORT, 1, 65535)
    server_options: str = read.key(_options, "")
    test_command: tuple[str, ...] = _command(("nginx", "-t", "-q"))
    reload_command: tuple[str, ...] = _command(("nginx", "-s", "reload"))
    status_url: str = url_key("")  # the stub_status page; empty: connections are unknown


class NginxFrontEnd:
    """One upstream block in an nginx instance on this host. A change takes effect only when nginx has loaded it.

    Open-source nginx neither reports the state of individual servers nor lets operators drain them. While a change is
    being loaded, a second file ``FILE.before`` contains the previous servers. If the scaler stops during that time, it
    cannot know which of the two files nginx has loaded. After a restart, the scaler therefore trusts only the servers
    that are the same in both files.
    """

    def __init__(self, config: NginxConfig, page: StubStatusPage | None) -> None:
        """``page`` is the ``stub_status`` page. If it is None, the number of connections is unknown."""
        self._config, self._page = config, page
        self._before_file = config.upstream_file.with_name(f"{config.upstream_file.name}.before")
        self._loaded: dict[str, UpstreamServer] | None = None  # what nginx has loaded; None: not read yet
        self._doubtful: frozenset[str] = frozenset()  # servers of which nginx may have loaded either version
        self._target: dict[str, UpstreamServer] = {}  # what is being loaded
        self._pending: dict[str, UpstreamServer | None] = {}  # changes that wait for a reload in progress
        self._reloading = asyncio.Lock()

    async def servers(self) -> Mapping[str, FrontEndServer]:
        """Return the servers that nginx has loaded. Raises FrontEndError."""
        loaded = await self._current()
        connections = await self._connections() if any(server.down for server in loaded.values()) else None
        found = {
            name: FrontEndServer(not server.down, server.down, connections if server.down else None)
            for name, server in loaded.items()
        }
        return found | {name: FrontEndServer(serving=False, drained=False) for name in self._doubtful}

    async def hold_back(self, name: str) -> None:
        """No-op: nginx sends clients only to servers that were added."""

    async def add(self, name: str, addresses: tuple[str, ...]) -> None:
        """Write a server into the file and reload nginx. A server that is ``down`` stays ``down``."""
        if not addresses:
            raise FrontEndError(f"{name}: the server has no address yet")
        await self._current()
        before = self._expected().get(name)
        address = str(ipaddress.ip_address(addresses[0]))
        await self._change(name, UpstreamServer(address, before.down if before else False))

    async def drain(self, name: str, reason: str) -> None:
        """Mark a server as ``down`` and reload nginx. Raises FrontEndError if no server would be left."""
        await self._current()
        server = self._existing(name, self._expected())
        others = (other for key, other in self._expected().items() if key != name)
        if not server.down and all(other.down for other in others):
            raise FrontEndError(f"{name}: the upstream would be left without a server")
        await self._change(name, replace(server, down=True))

    async def undrain(self, name: str) -> None:
        """Send clients to a server again."""
        await self._current()
        await self._change(name, replace(self._existing(name, self._expected()), down=False))

    async def remove(self, name: str) -> None:
        """Remove a server from the file and reload nginx. Requests in progress end in the old worker processes."""
        await self._change(name, None)

    def _existing(self, name: str, servers: Mapping[str, UpstreamServer]) -> UpstreamServer:
        if name not in servers:
            raise FrontEndError(f"{self._config.upstream_file} has no server {name}")
        return servers[name]

    def _expected(self) -> dict[str, UpstreamServer]:
        """Return the servers that nginx will have after the reload in progress and all pending changes are complete."""
        return {name: server for name, server in {**self._target, **self._pending}.items() if server is not None}

    async def _current(self) -> dict[str, UpstreamServer]:
        """Return the servers that nginx has loaded from the file, without those whose loaded version is uncertain."""
        if self._loaded is None:
            texts = self._read_text(self._config.upstream_file), self._read_text(self._before_file)
            try:
                after = parse_upstream(texts[0] or "")
                before = after if texts[1] is None else parse_upstream(texts[1])
            except ValueError as error:
                raise FrontEndError(f"{self._config.upstream_file}: {error}") from None
            self._doubtful = frozenset(name for name in {*before, *after} if before.get(name) != after.get(name))
            self._loaded = {name: server for name, server in after.items() if name not in self._doubtful}
            self._target = after
        return self._loaded

    async def _change(self, name: str, server: UpstreamServer | None) -> None:
        """Load a change, together with all other pending changes. If nginx refuses changes that were loaded together,
        each waiting caller tries its own change again, so that one bad change does not block the others.
        """
        await self._current()
        self._pending[name] = server
        async with self._reloading:
            assert self._loaded is not None
            if self._loaded.get(name) == server and name not in self._doubtful:
                return  # a reload for another caller has loaded this change, too
            self._pending[name] = server
            before, self._target = self._target, self._expected()
            self._pending = {}
            try:
                await self._load(self._target)
            except BaseException:
                self._target = before
                raise
            self._loaded, self._doubtful = self._target, frozenset()

    async def _load(self, wanted: dict[str, UpstreamServer]) -> None:
        """Write the file, test it and reload nginx. If anything fails, restore the file and raise FrontEndError."""
        config, path = self._config, self._config.upstream_file
        before = self._read_text(path)
        text = upstream_text(wanted, config.port, config.server_options)
        try:
            if not self._doubtful:  # or else FILE.before has a version that nginx may have loaded
                await asyncio.to_thread(self._write, self._before_file, before or HEADER)
            await asyncio.to_thread(self._write, path, text)
            await _run(config.test_command, f"{path}: nginx refuses the configuration")
            await _run(config.reload_command, f"{path}: nginx was not reloaded")
        except BaseException:
            with contextlib.suppress(OSError):
                self._restore(before)
            raise
        with contextlib.suppress(OSError):  # the file then only makes the next scaler more careful
            self._before_file.unlink(missing_ok=True)

    def _restore(self, text: str | None) -> None:
        if text is None:
            self._config.upstream_file.unlink(missing_ok=True)
        else:
            replace_file(self._config.upstream_file, text, sync=True)
        if not self._doubtful:
            self._before_file.unlink(missing_ok=True)

    def _read_text(self, path: Path) -> str | None:
        """Return the text of a file, or None if there is none."""
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise FrontEndError(f"{path}: cannot read the file: {error}") from None

    def _write(self, path: Path, text: str) -> None:
        try:
            replace_file(path, text, sync=True)
        except OSError as error:
            raise FrontEndError(f"{path}: cannot write the file: {error.strerror}") from None

    async def _connections(self) -> float | None:
        """Return 0 if nginx has no request in progress, or else None, because nginx does not count requests per
        server."""
        if self._page is None:
            return None
        try:
            return None if (await self._page.read()).in_progress else 0.0
        except LbdnsError as error:
            raise FrontEndError(str(error)) from None


async def _run(command: tuple[str, ...], failure: str) -> None:
    """Run a command. If it fails or takes too long, raise FrontEndError with the end of its output."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise FrontEndError(f"{failure}: {command[0]}: {error.strerror}") from None
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT):
            output, _ = await process.communicate()
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise FrontEndError(f"{failure}: {command[0]} did not end within {COMMAND_TIMEOUT:g} s") from None
        raise
    if process.returncode:
        words = " ".join(output.decode(errors="replace").split())
        raise FrontEndError(f"{failure}: {words[-QUOTED:] or f'{command[0]} ended with {process.returncode}'}")
