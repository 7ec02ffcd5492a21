"""lbdns as the front end: hosts join its pool by reporting, and drains reach every DNS server of the farm."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.config import value_readers as read
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.status_reader import StatusReader, collector_url_key, http_url
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer

#: The reason of every drain that the scaler requests, by which it knows its own drains from those of operators
REASON: Final = "lbdns-scaler: "
NEW: Final = "held back until its checks are done"
MAX_REASON: Final = 200 - len(REASON)  # characters that lbdns accepts


@dataclass(frozen=True, slots=True)
class LbdnsConfig:
    """The section ``[front_end]`` of kind ``lbdns``."""

    pool: str = read.string("web")
    url: str = collector_url_key()  # the collector's HTTP interface
    control: Path | None = read.optional_path()  # the collector's control socket; None: steer over HTTP
    token_file: Path | None = read.secret_path()  # a token that permits steering
    dns_servers: tuple[str, ...] = read.each((), http_url)  # HTTP interfaces of the DNS servers that follow it


class LbdnsFrontEnd:
    """The pool of an lbdns collector, and the DNS servers that follow the collector."""

    def __init__(
        self, collector: StatusReader, others: Sequence[StatusReader], send_command: Callable[..., object]
    ) -> None:
        """``others`` are the followers; a server counts as drained only if it is drained on each of them.

        ``send_command`` sends an override command with the given arguments, and blocks until the command is in force.
        It raises LbdnsError.
        """
        self._collector, self._others, self._send_command = collector, others, send_command

    async def servers(self) -> Mapping[str, FrontEndServer]:
        """Return the members of the pool. Raises FrontEndError if any DNS server does not respond."""
        try:
            members, *others = await asyncio.gather(*(r.members() for r in (self._collector, *self._others)))
        except LbdnsError as error:
            raise FrontEndError(str(error)) from None
        return {
            name: front_end_server(member, [other[name] for other in others if name in other])
            for name, member in members.items()
        }

    async def hold_back(self, name: str) -> None:
        """Drain a host before it joins. If no host with this name may join the pool, raise FrontEndError."""
        await self._send("drain", member=name, reason=REASON + NEW, ahead=True)

    async def add(self, name: str, addresses: tuple[str, ...]) -> None:
        """No-op: a host joins only by sending reports to the collector."""

    async def drain(self, name: str, reason: str) -> None:
        """Drain the member. If the pool would be left without a usable member, raise FrontEndError."""
        await self._send("drain", member=name, reason=REASON + reason[:MAX_REASON])

    async def undrain(self, name: str) -> None:
        """End the drain, unless an operator has requested it."""
        member = (await self._members()).get(name)
        if member and any(_is_own(override) for override in member["overrides"]):
            await self._send("undrain", member=name)

    async def remove(self, name: str) -> None:
        """Undrain a host that no longer exists, if the scaler drained it. The host leaves the pool by itself."""
        if name in await self._members():
            await self.undrain(name)
            return
        with contextlib.suppress(FrontEndError):  # a host that was never drained, for example
            await self._send("undrain", member=name)

    async def _members(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            return await self._collector.members()
        except LbdnsError as error:
            raise FrontEndError(str(error)) from None

    async def _send(self, command: str, **words: Any) -> None:
        try:
            await asyncio.to_thread(self._send_command, command, pool=self._collector.pool, **words)
        except LbdnsError as error:
            raise FrontEndError(str(error)) from None


def front_end_server(member: Mapping[str, Any], elsewhere: Sequence[Mapping[str, Any]]) -> FrontEndServer:
    """Return a member as the scaler sees it. ``elsewhere`` contains the same member's documents from the followers."""
    documents = (member, *elsewhere)
    drains = [override for override in member["overrides"] if override["kind"] in ("drain", "down")]
    held = any(not _is_own(override) for override in drains)
    busy = member["metrics"].get("busy_workers")
    reports = member["state"] not in ("silent", "unknown")
    # A silent host reports no connections any more; one of its workers serves the agent's own request
    connections = (None if busy is None else max(0.0, busy - 1.0)) if reports else 0.0 if member["gone"] else None
    return FrontEndServer(
        serving=member["state"] == "usable" and not held,
        drained=not held and bool(drains) and all(document["state"] == "drained" for document in documents),
        connections=connections,
        held=held,
    )


def _is_own(override: Mapping[str, Any]) -> bool:
    return str(override["reason"]).startswith(REASON)
