"""Admission control: refuses requests for other hosts, requests with a body, and clients without valid credentials.

By the time aiohttp reads a request, the connection gate has checked the client's network and scheduled the request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http import HttpVersion11

from lbdns_collector.web.access_control import RefusalReason
from lbdns_collector.web.app_keys import ACCESS
from lbdns_collector.web.gated_connection import connection_of
from lbdns_collector.web.http_responses import error
from lbdns_collector.web.refusal import RETRY
from lbdns_collector.web.request_heads import PROBES
from lbdns_collector.web.steering import PATHS as STEERING_PATHS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: The authority of a request target in absolute form, which takes precedence over Host (RFC 9112, section 3.2.2)
_ABSOLUTE: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
TOKEN_CHALLENGE: Final = 'Bearer realm="lbdns"'  # for steering: a browser must not prompt, because the page does
CHALLENGE: Final = 'Basic realm="lbdns", charset="UTF-8", Bearer realm="lbdns"'


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the handler's response, or an error response if the request is refused."""
    connection = connection_of(request)
    connection.admitted()
    if request.body_exists:
        connection.discard_body()
    try:
        response = _misdirected(request) or await _refusal(request) or await handler(request)
        if request.body_exists:
            response.force_close()
        return response
    finally:
        connection.finished()


def _misdirected(request: web.Request) -> web.Response | None:
    """Return a refusal if the request names another host (DNS rebinding), or no host at all.

    An HTTP/1.0 request may lack a Host header. This is safe, because no browser sends HTTP/1.0 requests.
    """
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 and (hosts or request.version >= HttpVersion11):
        return _refuse(request, "malformed", 400, "an HTTP/1.1 request must have one Host header")
    for host in (*hosts, *_ABSOLUTE.findall(request.raw_path)):
        if not request.app[ACCESS].is_named(host):
            what = f"{host!r} is not a name of this server; if clients should use this name, add it to [web] names"
            return _refuse(request, "host", 421, what, detail=repr(host))
    return None


async def _refusal(request: web.Request) -> web.Response | None:
    access, address = request.app[ACCESS], request.remote or ""
    steers = access.steer and request.path in STEERING_PATHS
    if not (access.credentials or steers) or request.path in PROBES:
        return None
    header = request.headers.get("Authorization")
    challenge = TOKEN_CHALLENGE if steers else CHALLENGE
    if header is None:
        what = "credentials are required: a user name and password, or a token ('Authorization: Bearer TOKEN')"
        return _refuse(request, "nameless", 401, what, WWW_Authenticate=challenge)
    if not access.may_try(address):
        what = f"too many wrong passwords or tokens from {address}; retry later"
        return _refuse(request, "tries", 429, what, Retry_After=RETRY)
    if access.credentials.steerer(header) if steers else access.credentials.accept(header):
        return None
    if steers and access.credentials and access.credentials.accept(header):
        return _refuse(request, "steering", 403, "these credentials may only read; use a token in steer_token_file")
    async with access.delayed_refusal(address):
        files = "steer_token_file" if steers and access.credentials.steer_tokens else "password_file and token_file"
        what = f"wrong user name, password or token; the valid credentials are in [web] {files}"
        return _refuse(request, "credentials", 401, what, WWW_Authenticate=challenge)


def _refuse(
    request: web.Request, why: RefusalReason, status: int, what: str, detail: str = "", **headers: str
) -> web.Response:
    request.app[ACCESS].refuse(why, request.remote or "", detail)
    response = error(status, what, **headers)
    if status != web.HTTPUnauthorized.status_code:
        response.force_close()  # the client's next request must wait for a connection
    return response
