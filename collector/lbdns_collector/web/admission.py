"""Admission control: schedules each HTTP request, and refuses requests from clients without read access."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from lbdns_collector.web.access_control import RefusalReason
from lbdns_collector.web.app_keys import ACCESS, SCHEDULER
from lbdns_collector.web.http_responses import error
from lbdns_collector.web.http_server import CONNECTIONS
from lbdns_collector.web.render_scheduler import RenderLane

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEALTH: Final = "/healthz"
LIVE: Final = "/livez"
PROBES: Final = (HEALTH, LIVE)  # need no credentials, and have their own lane
#: Seconds of CPU time to read a request and write its response head: 0.4 ms on an idle server, and about twice that if
#: queries evict the processor's caches in between
REQUEST_COST: Final = 0.0008
MAX_WAITING: Final = 32  # number of requests that may wait for a turn
RETRY: Final = "2"  # seconds
CHALLENGE: Final = 'Basic realm="lbdns", charset="UTF-8", Bearer realm="lbdns"'


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return the handler's response, or an error response if the request is refused."""
    scheduler, connections = request.app[SCHEDULER], request.app[CONNECTIONS]
    lane: RenderLane = "health" if request.path in PROBES else "request"
    connections.touch(request.protocol)
    if scheduler.waiting(lane) >= MAX_WAITING:
        return _refuse(request, "busy", 503, "too many requests are waiting; retry later", Retry_After=RETRY)
    async with scheduler.turn(lane, REQUEST_COST):
        pass
    response = await _refusal(request) or await handler(request)
    connections.touch(request.protocol)
    return response


async def _refusal(request: web.Request) -> web.Response | None:
    access, address = request.app[ACCESS], request.remote or ""
    if not access.is_allowed(address):
        what = f"{address} is not allowed to read this server's pages; its network must be added to [web] allow"
        return _refuse(request, "network", 403, what)
    if not access.credentials or request.path in PROBES:
        return None
    header = request.headers.get("Authorization")
    if header is None:
        what = "credentials are required: a user name and password, or a token ('Authorization: Bearer TOKEN')"
        return _refuse(request, "nameless", 401, what, WWW_Authenticate=CHALLENGE)
    if not access.may_try(address):
        what = f"too many wrong passwords or tokens from {address}; retry later"
        return _refuse(request, "tries", 429, what, Retry_After=RETRY)
    if access.credentials.accept(header):
        return None
    async with access.delayed_refusal(address):
        what = "wrong user name, password or token; [web] password_file and token_file contain the valid credentials"
        return _refuse(request, "credentials", 401, what, WWW_Authenticate=CHALLENGE)


def _refuse(request: web.Request, why: RefusalReason, status: int, what: str, **headers: str) -> web.Response:
    request.app[ACCESS].refuse(why, request.remote or "")
    response = error(status, what, **headers)
    if status != web.HTTPUnauthorized.status_code:
        response.force_close()  # the client's next request must wait for a connection
    return response
