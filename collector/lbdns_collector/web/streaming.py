"""``/api/v1/events``: server-sent events until the reader goes, is too slow, or the program stops."""

from __future__ import annotations

from aiohttp import web

from lbdns.event_stream import KEEP_ALIVE
from lbdns_collector.web.hub import Wants
from lbdns_collector.web.keys import CONNECTIONS, HUB
from lbdns_collector.web.responses import error, send


async def events(request: web.Request) -> web.StreamResponse:
    hub = request.app[HUB]
    wants: Wants = "changes" if request.query.get("changes") else "page"
    if only := request.query.get("only"):
        if only != "log" or wants == "changes":
            return error(400, f"only={only} is not possible; only=log leaves out the status, alone and without changes")
        wants = "log"
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    if hub.is_full:
        return error(503, "too many event streams are open; /api/v1/status tells the same, once", Retry_After="10")
    transport = request.transport
    request.app[CONNECTIONS].is_stream(request.protocol)
    stream, first = await hub.open(transport.abort if transport else lambda: None, wants)
    try:
        await response.prepare(request)
        waiting: bytes | None = first
        while waiting is not None:
            if wants == "changes":
                await response.write(waiting or KEEP_ALIVE)  # at once: DNS answers depend on it
            else:
                await send(request, response, waiting or KEEP_ALIVE)
            waiting = await stream.next()
    except (TimeoutError, ConnectionError):
        pass  # the reader has gone
    finally:
        hub.close(stream)
    return response
