"""TLS on a non-blocking socket that is already connected. This module is imported only if a server needs TLS."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.non_blocking_sensors import READABLE, WRITABLE
from lbdns_shared.errors import ConfigError


def tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Return a context that checks servers' certificates.

    ``authorities`` is a file with the certificates of the authorities to trust (PEM). If it is None, the system's
    authorities are trusted. Raises ConfigError.
    """
    try:
        return ssl.create_default_context(cafile=str(authorities) if authorities else None)
    except OSError as error:  # ssl.SSLError is one, too
        reason = error.strerror if not isinstance(error, ssl.SSLError) else "the file contains no certificate (PEM)"
        raise ConfigError(f"--bus-tls-ca: {authorities}: {reason}") from None


class TlsStream:
    """Has the methods of a socket that a connection uses. If a method would have to wait, it raises
    BlockingIOError."""

    def __init__(self, sock: socket.socket, host: str, context: ssl.SSLContext) -> None:
        """``host`` is the name or address that the server's certificate must contain."""
        self.handshake_waits_for = READABLE
        self._socket = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)

    def finish_handshake(self) -> bool:
        """Continue the handshake, and return whether it is complete. If it is not, wait for ``handshake_waits_for``.

        Raises BusError.
        """
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self.handshake_waits_for = READABLE
            return False
        except ssl.SSLWantWriteError:
            self.handshake_waits_for = WRITABLE
            return False
        except ssl.SSLCertVerificationError as error:
            raise BusError(f"the server's TLS certificate is not valid: {error.verify_message}", True) from None
        except ssl.SSLError as error:
            raise BusError(f"TLS failed: {error.reason or error}", True) from None
        return True

    def send(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv(self, size: int) -> bytes:
        try:
            return self._socket.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
