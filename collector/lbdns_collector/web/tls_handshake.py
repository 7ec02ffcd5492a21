"""The TLS handshake of an accepted connection whose first bytes have already been read."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, cast

HANDSHAKE_RECORD: Final = 22  # the first byte of a ClientHello (RFC 8446, section 5.1)
HIGH_WATER: Final = 64 * 1024  # unsent bytes, as for connections without TLS


async def perform_handshake(
    transport: asyncio.Transport,
    protocol: asyncio.Protocol,
    context: ssl.SSLContext,
    received: bytes,
    within: float,
    close_within: float,
) -> asyncio.Transport:
    """Perform the server's part of a handshake, and return the encrypted transport.

    ``received`` contains the bytes that the client has sent so far; reading is paused. After the handshake,
    ``protocol`` receives decrypted bytes, possibly before this function returns. A client has ``close_within`` seconds
    to confirm the end of the connection. Raises OSError (``ssl.SSLError`` among others) if the handshake fails or takes
    longer than ``within`` seconds. In that case, ``transport`` is closed, but asyncio does not always call
    ``protocol.connection_lost``.
    """
    loop = asyncio.get_running_loop()
    upgrade = loop.create_task(
        loop.start_tls(
            transport,
            protocol,
            context,
            server_side=True,
            ssl_handshake_timeout=within,
            ssl_shutdown_timeout=close_within,
        )
    )
    try:
        await asyncio.sleep(0)  # start_tls installs its protocol, and schedules its start
        await asyncio.sleep(0)  # its start
        _feed(transport, received)
        secured = await upgrade
    finally:
        upgrade.cancel()
    if secured is None or transport.is_closing():  # asyncio does not always report a lost connection
        raise ConnectionResetError("the client has disconnected")
    secured.set_write_buffer_limits(high=HIGH_WATER)
    return secured


def _feed(transport: asyncio.Transport, received: bytes) -> None:
    """Pass bytes to the transport's protocol as if they had just been read."""
    protocol = cast(asyncio.BufferedProtocol, transport.get_protocol())
    while received and not transport.is_closing():
        buffer = memoryview(protocol.get_buffer(len(received)))
        count = min(len(buffer), len(received))
        buffer[:count] = received[:count]
        protocol.buffer_updated(count)
        received = received[count:]
