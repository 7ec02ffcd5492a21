"""Access control for HTTP clients: permitted networks, credentials, and a limit on failed attempts."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

from lbdns.config.value_readers import Network
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials

log = logging.getLogger("lbdns.web")

RefusalReason = Literal["network", "nameless", "credentials", "tries", "busy"]
REFUSAL_REASONS: Final[tuple[RefusalReason, ...]] = ("network", "nameless", "credentials", "tries", "busy")

DELAY: Final = 1.0  # seconds before a client learns that its credentials are wrong
AT_ONCE: Final = 4  # pending refusals per network; with DELAY this limits the guesses per second
QUIET: Final = 60.0  # seconds between two log lines about refusals
_IPV6_PLACE: Final = 64  # bits: the network that a provider assigns to one customer


class AccessControl:
    """The access rules in force, from the configuration section ``[web]``.

    Loopback clients may always connect but, like all other clients, need credentials.
    """

    def __init__(self, allow: Sequence[Network] = (), credentials: HttpCredentials = NO_CREDENTIALS) -> None:
        self.allow = tuple(allow)
        self.credentials = credentials
        self.refused: Counter[RefusalReason] = Counter(dict.fromkeys(REFUSAL_REASONS, 0))
        self._wrong: Counter[str] = Counter()  # pending refusals, by network
        self._logged_at = float("-inf")  # monotonic seconds of the last log line
        self._unlogged = 0

    def is_allowed(self, address: str) -> bool:
        """Return whether a client at ``address`` may connect."""
        try:
            found = _plain(address)
        except ValueError:
            return False
        return found.is_loopback or any(found in network for network in self.allow)

    def refuse(self, why: RefusalReason, address: str) -> None:
        """Count a refusal, and log it unless another refusal was logged within the last minute."""
        self.refused[why] += 1
        if why in ("nameless", "busy"):  # a browser's first request has no credentials, and "busy" is not an attack
            return
        self._unlogged += 1
        now = time.monotonic()
        if now >= self._logged_at + QUIET:
            what = "is not in any network in [web] allow" if why == "network" else "sent a wrong password or token"
            more = f"; {self._unlogged - 1} others were refused since the last log line" if self._unlogged > 1 else ""
            log.warning("refused: %s %s%s", address, what, more)
            self._logged_at, self._unlogged = now, 0

    def may_try(self, address: str) -> bool:
        """Return whether credentials from a client at ``address`` may be checked now.

        To limit guesses, credentials are not checked while too many refusals are pending for the client's network.
        """
        return self._wrong[_place(address)] < AT_ONCE

    @contextlib.asynccontextmanager
    async def delayed_refusal(self, address: str) -> AsyncIterator[None]:
        """Wait DELAY seconds, then run the body of the ``async with``, which must send the refusal."""
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
    """Return the address without ``%INTERFACE``, and as an IPv4 address if it is IPv4-mapped. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return (found.ipv4_mapped or found) if found.version == 6 else found


def _place(address: str) -> str:
    try:
        found = _plain(address)
    except ValueError:
        return ""
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, _IPV6_PLACE), strict=False))
