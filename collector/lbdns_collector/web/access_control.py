"""Access control for HTTP clients: networks, host names, credentials, and a limit on failed attempts."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

from lbdns.config.value_readers import Network
from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials
from lbdns.sockets.client_network import client_network, plain_address
from lbdns_collector.web.host_names import is_name_of_server
from lbdns_collector.web.refusal_log import RefusalLog

if TYPE_CHECKING:
    import ssl

RefusalReason = Literal[
    "network",
    "handshake",
    "host",
    "nameless",
    "credentials",
    "tries",
    "busy",
    "slow",
    "replaced",
    "malformed",
    "steering",
]
REFUSAL_REASONS: Final[tuple[RefusalReason, ...]] = get_args(RefusalReason)
#: What the log says; reasons without a text are not logged, because they are no attacks: a browser's first request has
#: no credentials, and browsers and proxies keep idle connections
_LOGGED: Final[dict[RefusalReason, str]] = {
    "network": "is not in a network listed in [web] allow",
    "handshake": "failed to complete a TLS handshake",
    "host": "asked for a host that is not in [web] names",
    "credentials": "sent a wrong password or token",
    "tries": "sent too many wrong passwords or tokens",
    "slow": "did not send a complete request in time",
    "steering": "sent a steering request that was refused",
    "malformed": "sent something that is not valid HTTP",
}

DELAY: Final = 1.0  # seconds before a client learns that its credentials are wrong
AT_ONCE: Final = 4  # pending refusals per network; with DELAY this limits the guesses per second


class AccessControl:
    """The current access rules, from the configuration section ``[web]``.

    Clients on this machine may always connect, but need credentials like all other clients.
    """

    def __init__(self, allow: Sequence[Network] = (), credentials: HttpCredentials = NO_CREDENTIALS) -> None:
        self.apply(WebConfig(allow=tuple(allow)), credentials)
        self.refused: Counter[RefusalReason] = Counter(dict.fromkeys(REFUSAL_REASONS, 0))
        self._wrong: Counter[str] = Counter()  # pending refusals, by network
        self._log = RefusalLog()

    def apply(self, web: WebConfig, credentials: HttpCredentials, tls: ssl.SSLContext | None = None) -> None:
        """Replace the current rules with those in ``web``. Connections already accepted keep their TLS context."""
        self.allow = web.allow
        self.tls = tls  # None: clients connect without TLS
        self.names = frozenset(web.names)
        self.connections_per_client = web.connections_per_client
        self.credentials = credentials
        self.steer = web.steer

    @property
    def scheme(self) -> str:
        """The scheme of the server's URL."""
        return "https" if self.tls else "http"

    def is_allowed(self, address: str) -> bool:
        """Return whether a client at ``address`` may connect."""
        try:
            found = plain_address(address)
        except ValueError:
            return False
        return found.is_loopback or any(found in network for network in self.allow)

    def is_named(self, host: str) -> bool:
        """Return whether ``host``, the value of a Host header, names this server."""
        return is_name_of_server(host, self.names)

    def refuse(self, why: RefusalReason, address: str, detail: str = "") -> None:
        """Count a refusal, and log it unless a similar refusal was logged within the last minute."""
        self.refused[why] += 1
        if why in _LOGGED:
            self._log.report(why, f"{address} {_LOGGED[why]}{detail and f': {detail}'}")

    def may_try(self, address: str) -> bool:
        """Return whether credentials from a client at ``address`` may be checked now.

        To limit password guessing, credentials are not checked while too many refusals are pending for the client's
        network.
        """
        return self._wrong[client_network(address)] < AT_ONCE

    @contextlib.asynccontextmanager
    async def delayed_refusal(self, address: str) -> AsyncIterator[None]:
        """Return an async context manager that waits DELAY seconds on entry. The body of the ``async with`` statement
        must then send the refusal."""
        place = client_network(address)
        self._wrong[place] += 1
        try:
            await asyncio.sleep(DELAY)
            yield
        finally:
            self._wrong[place] -= 1
            if not self._wrong[place]:
                del self._wrong[place]


def is_this_machine(peer: str, own: str) -> bool:
    """Return whether ``peer`` is an address of this machine. ``own`` is the address to which the peer connected."""
    try:
        return peer == own or plain_address(peer).is_loopback
    except ValueError:
        return False
