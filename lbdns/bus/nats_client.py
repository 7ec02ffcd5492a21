"""A connection of the library nats-py that never falls back to an unencrypted connection, and keeps its errors."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Any, Final

from nats import errors
from nats.aio.client import Client

from lbdns.bus.bus_error_text import error_text
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import BusServer
from lbdns_shared.nkey import Nkey

#: Seconds between two PINGs. A server that leaves two of them unanswered counts as dead; with the pause after a loss,
#: the reports that it should have passed on are at most 2 s late
PING_INTERVAL: Final = 0.4
_REFUSED: Final = re.compile(r'permissions violation for (subscription|publish) to "([^"]+)"', re.IGNORECASE)


class NatsClient(Client):
    """A connection to one server. It is over when ``over`` is set."""

    def __init__(
        self, access: BusAccess, server: BusServer, on_refusal: Callable[[BusServer, str], None] = lambda *_: None
    ) -> None:
        """``on_refusal`` is called with the server and the reason when the server refuses a subject for the first
        time, and when this program drops messages for the first time, because too many wait."""
        super().__init__()
        self.over = asyncio.Event()
        #: ("subscription" or "publish", a subject in lower case) -> why the server does not permit it
        self.refused: dict[tuple[str, str], str] = {}
        self._access, self._server, self._on_refusal = access, server, on_refusal
        self._last = ""
        self._has_dropped = False  # whether messages have been dropped because this program is too slow

    def reason(self, otherwise: str) -> str:
        """Return the last error as text, or ``otherwise`` if there was none."""
        return self._last or otherwise

    async def open(self, longest: float) -> None:
        """Connect within ``longest`` seconds. If the server's URL begins with tls://, no credentials are sent to a
        server that does not require TLS. Raises errors of many kinds."""
        server, access = self._server, self._access
        credentials = server.credentials(access.password)
        if access.nkey:
            self._send_public_key(access.nkey)
        has_own_context = server.tls or bool(access.authorities)
        await self.connect(
            servers=[f"nats://{server.endpoint}"],
            name="lbdns",
            allow_reconnect=False,
            max_reconnect_attempts=1,  # with 0, the library would try to reach a server without end
            reconnect_time_wait=0,
            connect_timeout=int(longest),
            ping_interval=PING_INTERVAL,  # type: ignore[arg-type]  # the library only sleeps so long
            user=credentials.get("user"),
            password=credentials.get("pass"),
            token=credentials.get("auth_token"),
            signature_cb=self._sign if access.nkey else None,
            tls=access.tls_context() if has_own_context else None,
            tls_hostname=server.endpoint.host if has_own_context else None,
            error_cb=self._note_error,
            closed_cb=self._note_end,
        )

    async def end(self, longest: float, reason: str = "") -> None:
        """Close the connection, which may be half open. It is then over, at the latest after ``longest`` seconds.

        ``reason`` is the text to return from now on as the last error.
        """
        self._last = reason or self._last
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(longest):
                    await self.close()
        finally:
            # The library tells the end only if it could close everything in time
            if self._transport is not None:
                with contextlib.suppress(Exception):
                    self._transport.close()  # type: ignore[no-untyped-call]
            self.over.set()

    async def _note_error(self, error: Exception) -> None:
        if isinstance(error, errors.SlowConsumerError):
            if not self._has_dropped:
                self._has_dropped = True
                self._on_refusal(self._server, "messages arrive faster than lbdns processes them; some are dropped")
            return
        text = error_text(error)
        if isinstance(error, ConnectionResetError) and self.is_connecting:
            # A server that refuses credentials may close the connection so early that its reason gets lost
            text = "the server closed the connection during the login; check the user and the password, token or nkey"
        refused = _REFUSED.search(str(error))
        if refused is None:
            if not (self.is_closed and self._last):  # closing a connection that the server has reset fails once more
                self._last = text
        elif (key := (refused[1].lower(), refused[2].lower())) not in self.refused:
            self.refused[key] = text
            self._on_refusal(self._server, text)

    async def _note_end(self) -> None:
        self.over.set()

    def _send_public_key(self, nkey: Nkey) -> None:
        """Make the library send the nkey's public key beside the signature, as servers require.

        No public option of nats-py does so: ``signature_cb`` alone sends nothing, ``user_jwt_cb`` sends a JWT instead
        of the public key, and ``nkeys_seed`` and ``nkeys_seed_str`` require one more package, which signs by itself.
        """
        self._auth_configured, self._public_nkey = True, nkey.public_key

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # The library encrypts a connection only if the server asks for it, so an attacker could prevent it
        if initial_connection and self._server.tls and not info.get("tls_required"):
            raise errors.Error("the server does not require TLS; configure it there, or write nats:// in the URL")
        if initial_connection and self._access.nkey and not info.get("nonce"):
            raise errors.Error("the server does not ask for a signature; configure the user's nkey there")
        await super()._process_info(info, initial_connection)

    def _sign(self, nonce: str) -> bytes:
        assert self._access.nkey is not None, "the library asks only if there is an nkey"
        return self._access.nkey.sign(nonce).encode("ascii")
