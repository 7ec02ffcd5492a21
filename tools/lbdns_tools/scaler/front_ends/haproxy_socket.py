"""Sends commands to HAProxy's statistics socket, and explains the most common refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import key
from lbdns_shared.endpoint import Endpoint, parse_endpoint
from lbdns_tools.scaler.front_ends.front_end import FrontEndError

DEFAULT_SOCKET: Final = Path("/run/haproxy/admin.sock")  # of Debian's haproxy.cfg
STATS_PORT: Final = 9999
TIMEOUT: Final = 5.0  # seconds; HAProxy itself closes an idle connection after 10 s
MAX_REPLY: Final = 16 * 2**20  # bytes: 1,000 servers take about 0.5 MB
#: What to do about a refusal, by a part of HAProxy's message
_ADVICE: Final[Mapping[str, str]] = {
    "dynamic load balancing": (
        "servers can be added at run time only with 'balance roundrobin', 'leastconn', 'first' or 'random', "
        "or with a hash and 'hash-type consistent'"
    ),
    "Permission denied": "the line 'stats socket' must contain 'level admin'",
    "experimental": "HAProxy 2.6 or later is required",
    "Unknown command": "HAProxy 2.6 or later is required",
    "No such backend": "check the setting 'backend'",
    "No such proxy": "check the setting 'backend'",
    "Can't find backend": "check the setting 'backend'",
}

StatsAddress = Path | Endpoint


def socket_key() -> StatsAddress:
    """Return a field for the address of a statistics socket: a path, or ADDRESS:PORT."""

    def read(table: TomlTable, name: str, default: StatsAddress) -> StatsAddress:
        text = table.string(name, str(default))
        if text.startswith("/"):
            return Path(text)
        try:
            return parse_endpoint(text, STATS_PORT)
        except ValueError as error:
            table.wrong(name, f"must be the path of a socket, or ADDRESS:PORT: {error}")
            return default

    return key(read, DEFAULT_SOCKET)


class HaproxySocket:
    """The statistics socket of one HAProxy instance. Each command uses a connection of its own."""

    def __init__(self, address: StatsAddress) -> None:
        self.address = address

    async def ask(self, command: str) -> str:
        """Return HAProxy's reply to a command. Raises FrontEndError if no reply arrives."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._exchange(command)
        except TimeoutError:
            raise FrontEndError(f"{self.address}: HAProxy did not reply within {TIMEOUT:g} s") from None
        except OSError as error:
            what = error.strerror or str(error)
            raise FrontEndError(f"{self.address}: cannot reach HAProxy's statistics socket: {what}") from None

    async def order(self, command: str, *accepted: str) -> None:
        """Send a command that changes HAProxy's state. Raises FrontEndError unless HAProxy confirms that it has carried
        out the command.

        HAProxy confirms most commands with an empty reply. A reply that begins with one of the strings in ``accepted``
        is also a confirmation.
        """
        reply = (await self.ask(command)).strip()
        if reply and not reply.startswith(accepted or ("\n",)):
            raise self.refusal(command, reply)

    def refusal(self, command: str, reply: str) -> FrontEndError:
        """Return the error for a command that HAProxy has refused."""
        first = reply.strip().partition("\n")[0]
        advice = next((f"; {advice}" for part, advice in _ADVICE.items() if part in reply), "")
        return FrontEndError(f"{self.address}: HAProxy refused '{command}': {first}{advice}")

    async def _exchange(self, command: str) -> str:
        if isinstance(self.address, Path):
            reader, writer = await asyncio.open_unix_connection(self.address)
        else:
            reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(f"{command}\n".encode())
            parts, size = [], 0
            while part := await reader.read(65536):
                parts.append(part)
                size += len(part)
                if size > MAX_REPLY:
                    raise FrontEndError(f"{self.address}: the reply to '{command}' is longer than {MAX_REPLY} bytes")
            return b"".join(parts).decode(errors="replace")
        finally:
            writer.close()
