"""HTTP client: reads documents and event streams from a running server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from lbdns import __version__
from lbdns.config import load_sections
from lbdns.events.server_sent_events import ServerSentEvent, ServerSentEventReader
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials, parse_tokens, read_credentials
from lbdns.secrets.tls_certificate import client_context
from lbdns_shared.errors import ConfigError, LbdnsError

STATUS_PATH: Final = "/api/v1/status"
EVENTS_PATH: Final = "/api/v1/events"
#: seconds: a local server responds in milliseconds, or in a few seconds under a flood of DNS queries
SERVER: Final = "'lbdns serve' running, with [web] listen"
TIMEOUT: Final = 10.0
SILENCE: Final = 45.0  # seconds without a byte from an event stream, which has a keep-alive every 15 s
MAX_BODY: Final = 64 * 2**20  # bytes: 10,000 members take about 10 MB
TOKEN_VARIABLE: Final = "LBDNS_TOKEN"  # environment variable
CERTIFICATE_VARIABLE: Final = "SSL_CERT_FILE"  # environment variable, which OpenSSL reads
_STEER: Final = {"X-Lbdns-Steer": "1"}  # required by the server, since other sites' scripts cannot set this header
_PIECE: Final = 65536  # bytes


def find_credentials(config: Path | None = None) -> HttpCredentials:
    """Return the credentials from LBDNS_TOKEN.

    If LBDNS_TOKEN is not set, return the credentials from ``config``, or None if this file does not exist.

    Raises ConfigError.

    """
    if token := os.environ.get(TOKEN_VARIABLE, ""):
        return HttpCredentials(tokens=parse_tokens(token, f"the environment: {TOKEN_VARIABLE}"))
    return read_credentials(load_sections(config, "web").web)[0] if config and config.exists() else NO_CREDENTIALS


@dataclass(frozen=True, slots=True)
class HttpLocation:
    """A server's base URL, such as http://127.0.0.1:8053, with the credentials and the certificate for connecting to
    it.
    """

    base: str
    credentials: HttpCredentials = NO_CREDENTIALS
    #: A file with the server's certificate. If None, a trusted authority must have signed the certificate
    certificate: Path | None = None

    @classmethod
    def of_url(cls, url: str) -> HttpLocation:
        """Return the location of a server, with credentials from the environment. Raises ConfigError."""
        return cls(url, find_credentials())

    def url(self, path: str) -> str:
        """Return the URL of ``path`` on the server. Raises ConfigError if the base is not a URL."""
        parts = urlsplit(self.base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{self.base!r} is not a URL such as http://127.0.0.1:8053")
        return self.base.rstrip("/") + path

    def tls(self) -> ssl.SSLContext | None:
        """Return a TLS context for this server, or None if it has no certificate of its own.

        Raises ConfigError.
        """
        return client_context(self.certificate) if self.certificate else None


def fetch(server: HttpLocation, path: str, expected: str = SERVER) -> bytes:
    """Request ``path`` from a server, and return the response body.

    If the server does not respond, the error asks whether ``expected`` is running at its address.

    Raises LbdnsError if the server does not respond or refuses the request, or if the response is not from lbdns.
    """
    base = server.base
    with _open(server, path, TIMEOUT, expected) as response:
        try:
            body = bytes(response.read(MAX_BODY))
        except (OSError, http.client.HTTPException) as error:
            raise _no_response(base, error, expected) from None
        if response.length:  # bytes that are still missing
            raise LbdnsError(f"{base}: the response is truncated or longer than {MAX_BODY} bytes")
        return body


def steer(server: HttpLocation, command: str, **words: Any) -> None:
    """Carry out an override command, such as ``drain``, on a server with ``[web] steer``. Raises LbdnsError."""
    texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in words.items()}
    _open(server, f"/api/v1/{command}", TIMEOUT, words=texts, headers=_STEER).close()


def stream_events(server: HttpLocation, path: str = EVENTS_PATH) -> Iterator[ServerSentEvent]:
    """Yield the events from an event stream until the stream fails.

    Raises LbdnsError if the server closes the stream or sends nothing for SILENCE seconds.
    """
    events, base = ServerSentEventReader(), server.base
    with _open(server, path, SILENCE) as response:
        if response.headers.get_content_type() != "text/event-stream":
            raise LbdnsError(f"{base}: the response is not from lbdns: {path} is not an event stream")
        while True:
            try:
                piece = response.read1(_PIECE)
                yield from events.feed(piece)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise LbdnsError(f"{base}: the event stream was interrupted: {_reason(error)}") from None
            if not piece:
                raise LbdnsError(f"{base}: the server closed the event stream")


def _open(
    server: HttpLocation,
    path: str,
    timeout: float,
    expected: str = SERVER,
    words: Mapping[str, Any] = {},
    headers: Mapping[str, str] = {},
) -> http.client.HTTPResponse:
    base, url = server.base, server.url(path)
    request = urllib.request.Request(
        f"{url}?{urlencode(words)}" if words else url,
        headers={"User-Agent": f"lbdns/{__version__}", **headers},
        method="POST" if words else "GET",
    )
    if authorization := server.credentials.header():
        # The target of a redirect does not receive these headers
        request.add_unredirected_header("Authorization", authorization)
    # No proxy: the environment's proxy is for other hosts, and the server usually runs on this one
    tls = urllib.request.HTTPSHandler(context=server.tls())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise LbdnsError(_refusal(base, path, error)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_response(base, error, expected) from None
    return response


def _no_response(base: str, error: Exception, expected: str) -> LbdnsError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        how = f"set {CERTIFICATE_VARIABLE} to a file that contains this certificate or its CA's certificate"
        return LbdnsError(f"{base}: the server's certificate is not trusted: {reason.verify_message}; {how}")
    if isinstance(reason, ssl.SSLError):
        return LbdnsError(f"{base}: the TLS handshake failed: {reason.reason}; does the server use http://?")
    return LbdnsError(f"{base}: no response: {_reason(error)}. Is {expected} at this address?")


def _refusal(base: str, path: str, error: urllib.error.HTTPError) -> str:
    """Return a message for an HTTP error.

    If the response is from lbdns, the message quotes the server's own message.
    """
    message = ""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        message = str(json.loads(error.read(_PIECE))["error"])
    if error.code == http.HTTPStatus.UNAUTHORIZED:
        how = f"set {TOKEN_VARIABLE}, or use -c FILE as a user who can read the token_file named in FILE"
        return f"{base}: {message or 'credentials are required'}; {how}"
    if message:
        return f"{base}: {message}"
    return f"{base}: the response is not from lbdns: {path} returned {error.code} {error.reason}"


def _reason(error: Any) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)
