"""One session with a NATS server: the order of its messages, from INFO to the first report and beyond. Sans-I/O.

1. The server sends INFO, which says whether it requires TLS.
2. If TLS is needed, the caller encrypts the connection, and then calls ``continue_encrypted``.
3. The session sends CONNECT and PING; with an nkey, CONNECT contains a signature of the random number in INFO. The
   server answers with PONG, or with an error if it refuses the credentials.
4. The session sends reports. A server does not confirm a report, but it reports one that it refuses. A PING after a
   report therefore finds out: if PONG arrives without an error before it, the server has accepted the report.
"""

from __future__ import annotations

from typing import Final, Literal

from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.bus_options import BusSecrets
from lbdns_agent.bus.nats_messages import PING, PONG, MessageReader, ServerMessage, connect_message, publish_message
from lbdns_shared import __version__
from lbdns_shared.bus_url import BusServer

MOST_UNSENT: Final = 16 * 1024  # bytes; a client that reads nothing of what it asks for would need more

#: "ready": reports can be sent; "accepted", "refused": what the server did with the reports before the last PING
SessionEvent = Literal["ready", "accepted", "refused"]


class BusSession:
    """A session with ``server``. The caller sends the bytes in ``outgoing``, and removes those that it has sent."""

    def __init__(self, server: BusServer, secrets: BusSecrets, client: str) -> None:
        """``secrets`` come from files. ``client`` is this agent's name in the server's lists."""
        self.outgoing = bytearray()
        self.is_ready = False
        self.needs_tls = False  # whether the caller must encrypt the connection now
        self.awaits_pong = False
        self.refusal = ""  # the server's last error about a report
        self._server, self._secrets, self._client = server, secrets, client
        self._nonce: object = None  # the random number of the server, in base64
        self._reader = MessageReader()
        self._connecting = False  # whether CONNECT has been sent
        self._published = False  # whether a report was sent after the last PING
        self._asked = False  # whether the last PING asks about a report
        self._refused = False

    def receive(self, data: bytes) -> list[SessionEvent]:
        """Process bytes from the server. Return what has happened, in order. Raises BusError if the session is over."""
        events: list[SessionEvent] = []
        for message in self._reader.read(data):
            if message.kind == "INFO":
                self._read_info(message)
            elif message.kind == "PING":
                self._write(PONG)
            elif message.kind == "PONG":
                events += self._read_pong()
            elif message.kind == "-ERR":
                self._read_error(message.text)
        return events

    def continue_encrypted(self) -> None:
        """Continue the session after the connection has been encrypted."""
        self.needs_tls = False
        self._connect(tls=True)

    @property
    def has_unconfirmed(self) -> bool:
        """Whether the server may not have processed all reports yet."""
        return self._published or self.awaits_pong

    def publish(self, subject: str, payload: bytes) -> None:
        """Send one report. Call this method only while ``is_ready`` is true."""
        self._write(publish_message(subject, payload))
        self._published = True

    def ping(self) -> None:
        """Ask for a PONG, unless one is on its way."""
        if not self.awaits_pong:
            self.awaits_pong, self._asked, self._published = True, self._published, False
            self._write(PING)

    def _read_info(self, message: ServerMessage) -> None:
        if self._connecting or self.needs_tls:
            return  # the servers of the cluster have changed
        self._nonce = message.info.get("nonce")
        offered = message.info.get("tls_required") is True or message.info.get("tls_available") is True
        if self._server.tls and not offered:
            raise BusError(
                "the server offers no TLS; configure it there, or write nats:// for an unencrypted bus", True
            )
        if self._server.tls or message.info.get("tls_required") is True:
            if self._reader.has_more:
                raise BusError("the server sent unencrypted bytes before TLS began; they may be forged", True)
            self.needs_tls = True
        else:
            self._connect(tls=False)

    def _connect(self, tls: bool) -> None:
        self._connecting = True
        self._write(connect_message(self._client, __version__, tls, self._credentials()))
        self.ping()

    def _credentials(self) -> dict[str, str]:
        """Return the credentials as fields of CONNECT. Raises BusError."""
        nkey = self._secrets.nkey
        if nkey is None:
            return self._server.credentials(self._secrets.password)
        if not (isinstance(self._nonce, str) and self._nonce and self._nonce.isascii()):
            raise BusError("the server does not ask for a signature; configure the user's nkey there", True)
        return {"nkey": nkey.public_key, "sig": nkey.sign(self._nonce)}

    def _read_pong(self) -> list[SessionEvent]:
        if not self.awaits_pong:
            return []
        self.awaits_pong = False
        if not self.is_ready:
            self.is_ready = True
            return ["ready"]
        if not self._asked:
            return []
        refused, self._refused = self._refused, False
        return ["refused" if refused else "accepted"]

    def _read_error(self, text: str) -> None:
        lower = text.lower()
        if lower.startswith("permissions violation"):  # the server keeps the connection open
            self.refusal, self._refused = text, True
        elif lower.startswith(("authorization violation", "authentication", "user authentication")):
            raise BusError(
                f"the server refuses the credentials ({text}); check the user and the password, token or nkey", True
            )
        else:
            raise BusError(f"the server closed the connection: {text}", "exceeded" in lower)

    def _write(self, data: bytes) -> None:
        if len(self.outgoing) + len(data) > MOST_UNSENT:
            raise BusError("the server does not read what the agent sends")
        self.outgoing += data
