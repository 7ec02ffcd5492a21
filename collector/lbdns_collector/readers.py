"""Who may read over HTTP: networks, passwords and tokens of ``[web]``, and how often somebody may be wrong."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

from lbdns.config.reading import Network
from lbdns.http_credentials import NOBODY, Credentials

log = logging.getLogger("lbdns.web")

Refusal = Literal["network", "nameless", "credentials", "tries", "busy"]
REFUSALS: Final[tuple[Refusal, ...]] = ("network", "nameless", "credentials", "tries", "busy")

DELAY: Final = 1.0  # seconds until somebody is told that what they sent is wrong ...
AT_ONCE: Final = 4  # ... and so many may wait for that from one place: guesses a second
QUIET: Final = 60.0  # seconds from one log line about refusals to the next
_IPV6_PLACE: Final = 64  # bits: what one customer of a provider has, and can try from


class Readers:
    """What of ``[web]`` is in force. The loopback may always reach the pages, and needs credentials as all others."""

    def __init__(self, allow: Sequence[Network] = (), credentials: Credentials = NOBODY) -> None:
        self.allow = tuple(allow)
        self.credentials = credentials
        self.refused: Counter[Refusal] = Counter(dict.fromkeys(REFUSALS, 0))
        self._wrong: Counter[str] = Counter()  # tries that wait to be told, by place
        self._told = float("-inf")  # when a line was logged
        self._untold = 0

    def may_reach(self, address: str) -> bool:
        """Whether ``address``, of the other end of a connection, is in a network that may read."""
        try:
            found = _plain(address)
        except ValueError:
            return False
        return found.is_loopback or any(found in network for network in self.allow)

    def refuse(self, why: Refusal, address: str) -> None:
        """Count it, and log it if nothing was logged lately."""
        self.refused[why] += 1
        if why in ("nameless", "busy"):  # how every browser begins; and somebody who reads a lot
            return
        self._untold += 1
        now = time.monotonic()
        if now >= self._told + QUIET:
            what = "comes from no network of [web] allow" if why == "network" else "sent a wrong password or token"
            more = f", {self._untold - 1} others were refused before" if self._untold > 1 else ""
            log.warning("refused: %s %s%s", address, what, more)
            self._told, self._untold = now, 0

    def has_tries(self, address: str) -> bool:
        """Whether somebody there may send credentials just now. While too many wrong ones wait to be told, nothing
        from there is looked at, or there would be no limit to guessing."""
        return self._wrong[_place(address)] < AT_ONCE

    @contextlib.asynccontextmanager
    async def told_late(self, address: str) -> AsyncIterator[None]:
        """Around telling that credentials are wrong."""
        place = _place(address)
        self._wrong[place] += 1
        try:
            await asyncio.sleep(DELAY)
            yield
        finally:
            self._wrong[place] -= 1
            if not self._wrong[place]:
                del self._wrong[place]


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Without the interface, and as IPv4 if it is IPv4 in IPv6's clothes. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return (found.ipv4_mapped or found) if found.version == 6 else found


def _place(address: str) -> str:
    try:
        found = _plain(address)
    except ValueError:
        return ""
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, _IPV6_PLACE), strict=False))
