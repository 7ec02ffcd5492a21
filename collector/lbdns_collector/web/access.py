"""Every request on its way in: a turn at the gate, and whether this reader may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from lbdns_collector.readers import Refusal
from lbdns_collector.web.gate import Lane
from lbdns_collector.web.keys import CONNECTIONS, GATE, READERS
from lbdns_collector.web.responses import error

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEALTH: Final = "/healthz"
#: Seconds of CPU time for reading a request, and its response's head: 0.4 ms when it does nothing else, about twice
#: that where queries have the processor's caches to themselves in between
REQUEST_COST: Final = 0.0008
MAX_WAITING: Final = 32  # requests at the gate
RETRY: Final = "2"  # seconds
CHALLENGE: Final = 'Basic realm="lbdns", charset="UTF-8", Bearer realm="lbdns"'


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The handler's response, or why there is none for this reader."""
    gate, connections = request.app[GATE], request.app[CONNECTIONS]
    lane: Lane = "health" if request.path == HEALTH else "request"
    connections.touch(request.protocol)
    if gate.waiting(lane) >= MAX_WAITING:
        return _refuse(request, "busy", 503, "too many requests wait already; come back later", Retry_After=RETRY)
    async with gate.turn(lane, REQUEST_COST):
        pass
    response = await _refusal(request) or await handler(request)
    connections.touch(request.protocol)
    return response


async def _refusal(request: web.Request) -> web.Response | None:
    readers, address = request.app[READERS], request.remote or ""
    if not readers.may_reach(address):
        what = f"{address} may not read here; whoever runs this server can add its network to [web] allow"
        return _refuse(request, "network", 403, what)
    if not readers.credentials or request.path == HEALTH:
        return None
    header = request.headers.get("Authorization")
    if header is None:
        what = "reading needs a user with a password, or a token: 'Authorization: Bearer TOKEN'"
        return _refuse(request, "nameless", 401, what, WWW_Authenticate=CHALLENGE)
    if not readers.has_tries(address):
        what = f"too many wrong passwords or tokens came from {address}; come back later"
        return _refuse(request, "tries", 429, what, Retry_After=RETRY)
    if readers.credentials.accept(header):
        return None
    async with readers.told_late(address):
        what = "wrong user, password or token; [web] password_file and token_file of the server hold the right ones"
        return _refuse(request, "credentials", 401, what, WWW_Authenticate=CHALLENGE)


def _refuse(request: web.Request, why: Refusal, status: int, what: str, **headers: str) -> web.Response:
    request.app[READERS].refuse(why, request.remote or "")
    response = error(status, what, **headers)
    if status != web.HTTPUnauthorized.status_code:
        response.force_close()  # the next one has to wait for a connection
    return response
