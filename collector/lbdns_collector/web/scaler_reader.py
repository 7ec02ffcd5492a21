"""Reads the status document of a running lbdns-scaler for the live page, at most once a second for all clients."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web

from lbdns import __version__
from lbdns_collector.status.status_document import to_json
from lbdns_collector.web.render_scheduler import RenderScheduler
from lbdns_collector.web.scaler_document import NotScalerError, check_document

PATH: Final = "/api/v1/scaler"
TIMEOUT: Final = 1.0  # seconds for the whole request
FRESH: Final = 1.0  # seconds for which an answer, or an error, is used again
MAX_BODY: Final = 2**20  # bytes: 1000 servers take about 400 kB
NOT_CONFIGURED: Final = (
    'no scaler is configured; to show one here, set [web] scaler = "http://HOST:PORT" in the server\'s configuration'
)
_HINT: Final = ". Is 'lbdns-scaler run' running, with [scaler] listen set to this address?"
_HEADERS: Final = {"User-Agent": f"lbdns/{__version__}", "Accept": "application/json", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class ScalerAnswer:
    """An HTTP status, and the JSON document to send with it."""

    status: int
    body: bytes

    @classmethod
    def error(cls, status: int, what: str) -> ScalerAnswer:
        return cls(status, to_json({"error": what}))


class ScalerReader:
    """Reads the document of the scaler at the URL that ``url_now`` returns; an empty URL means that there is no scaler.

    The document is checked in slices of ``scheduler``.
    """

    def __init__(self, url_now: Callable[[], str], scheduler: RenderScheduler) -> None:
        self._url_now, self._scheduler = url_now, scheduler
        self._url = ""
        self._answer = ScalerAnswer.error(web.HTTPNotFound.status_code, NOT_CONFIGURED)
        self._read_at = -FRESH  # monotonic seconds

    async def read(self) -> ScalerAnswer:
        """Return the scaler's document, which is at most FRESH seconds old, or an error.

        The status is 404 if no scaler is configured, and 502 if the scaler does not respond with its status document.
        At most one call may run at a time.
        """
        url = self._url_now()
        if not url:
            return ScalerAnswer.error(web.HTTPNotFound.status_code, NOT_CONFIGURED)
        if url != self._url or time.monotonic() - self._read_at >= FRESH:
            self._answer = await self._fetch(url)
            self._url, self._read_at = url, time.monotonic()
        return self._answer

    async def _fetch(self, url: str) -> ScalerAnswer:
        try:
            async with asyncio.timeout(TIMEOUT):
                body = await _request(url + PATH)
            await self._scheduler.work(check_document(body))
            return ScalerAnswer(web.HTTPOk.status_code, body)
        except NotScalerError as wrong:
            what = f"the response is not from lbdns-scaler: {wrong}"
        except TimeoutError:
            what = f"no response within {TIMEOUT:g} s{_HINT}"
        except (aiohttp.ClientError, OSError, ValueError) as wrong:
            what = f"no response: {_reason(wrong)}{_HINT}"
        return ScalerAnswer.error(web.HTTPBadGateway.status_code, f"[web] scaler: {url}: {what}")


async def _request(url: str) -> bytes:
    """Return the body of the response at ``url``. Raises NotScalerError, ClientError, OSError or ValueError."""
    # Redirects are not followed, and compressed bodies not expanded: both could lead beyond the limits
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, headers=_HEADERS, auto_decompress=False) as session,
        session.get(url, allow_redirects=False) as response,
    ):
        if response.status != web.HTTPOk.status_code:
            raise NotScalerError(f"{PATH} returned status {response.status}")
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > MAX_BODY:
                raise NotScalerError(f"it is longer than {MAX_BODY} bytes")
        return bytes(body)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "the certificate is not trusted; set SSL_CERT_FILE to a file that contains the CA's certificate"
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(inner, ssl.SSLError):
        return f"the TLS handshake failed: {inner.reason}"
    number = getattr(inner, "errno", None) or 0
    if number > 0:  # negative numbers are those of getaddrinfo
        return os.strerror(number)
    return str(getattr(inner, "strerror", None) or inner) or type(inner).__name__
