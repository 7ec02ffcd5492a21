"""Reading what a running server tells over HTTP: whole documents, and event streams."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lbdns import __version__
from lbdns.config import load_config
from lbdns.errors import ConfigError, LbdnsError
from lbdns.event_stream import Event, EventReader
from lbdns.http_credentials import NOBODY, Credentials, parse_tokens, read_credentials

STATUS: Final = "/api/v1/status"
EVENTS: Final = "/api/v1/events"
TIMEOUT: Final = 10.0  # seconds: a server on the same machine answers in milliseconds, under a flood of DNS in some s
SILENCE: Final = 45.0  # seconds without a byte of an event stream, which has a sign of life every 15 s
MAX_BODY: Final = 64 * 2**20  # bytes: 10,000 members take about 10 MB
TOKEN: Final = "LBDNS_TOKEN"  # of the environment
_PIECE: Final = 65536  # bytes


def credentials_of(config: Path | None = None) -> Credentials:
    """What to send: what ``LBDNS_TOKEN`` says, else what the server's configuration asks of its readers, if there is
    such a file. Raises ConfigError."""
    if token := os.environ.get(TOKEN, ""):
        return Credentials(tokens=parse_tokens(token, f"the environment: {TOKEN}"))
    return read_credentials(load_config(config).web)[0] if config and config.exists() else NOBODY


def fetch(base: str, path: str, credentials: Credentials | None = None) -> bytes:
    """The body of ``path`` below ``base``, such as http://127.0.0.1:8053. Without ``credentials`` those of the
    environment are sent. Raises LbdnsError when nothing, or something else, answers, or the server refuses."""
    with _open(base, path, credentials, TIMEOUT) as response:
        try:
            body = bytes(response.read(MAX_BODY))
        except (OSError, http.client.HTTPException) as error:
            raise _no_answer(base, error) from None
        if response.length:  # what is left of it
            raise LbdnsError(f"{base}: the answer was cut, or is over {MAX_BODY} bytes")
        return body


def stream(base: str, path: str = EVENTS, credentials: Credentials | None = None) -> Iterator[Event]:
    """The events of a stream, until the server ends it or nothing is heard of it for some time: LbdnsError then."""
    events = EventReader()
    with _open(base, path, credentials, SILENCE) as response:
        if response.headers.get_content_type() != "text/event-stream":
            raise LbdnsError(f"{base}: what answers there is not lbdns: {path} is no event stream")
        while True:
            try:
                piece = response.read1(_PIECE)
                yield from events.feed(piece)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise LbdnsError(f"{base}: the event stream was cut: {_reason(error)}") from None
            if not piece:
                raise LbdnsError(f"{base}: the server has ended the event stream")


def _open(base: str, path: str, credentials: Credentials | None, timeout: float) -> http.client.HTTPResponse:
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).netloc:
        raise ConfigError(f"{base!r} is no URL, such as http://127.0.0.1:8053")
    request = urllib.request.Request(base.rstrip("/") + path, headers={"User-Agent": f"lbdns/{__version__}"})
    if authorization := (credentials_of() if credentials is None else credentials).header():
        # Not to be sent on to where a redirection leads
        request.add_unredirected_header("Authorization", authorization)
    # No proxy: the environment's is for the outside, and the server is usually on this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise LbdnsError(_refusal(base, path, error)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_answer(base, error) from None
    return response


def _no_answer(base: str, error: Exception) -> LbdnsError:
    return LbdnsError(f"{base}: no answer: {_reason(error)}. Is 'lbdns serve' running, with [web] there?")


def _refusal(base: str, path: str, error: urllib.error.HTTPError) -> str:
    """What an answer that is an error says, if it is one of ours; else that it is none."""
    told = ""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        told = str(json.loads(error.read(_PIECE))["error"])
    if error.code == http.HTTPStatus.UNAUTHORIZED:
        how = f"set {TOKEN}, or name its configuration with -c as somebody who can read its token_file"
        return f"{base}: {told or 'asks who is reading'}; {how}"
    if told:
        return f"{base}: {told}"
    return f"{base}: what answers there is not lbdns: {path} is {error.code} {error.reason}"


def _reason(error: Any) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)
