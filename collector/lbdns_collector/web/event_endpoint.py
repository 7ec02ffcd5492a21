"""``/api/v1/events``: server-sent events until the client disconnects, reads too slowly, or the program stops."""

from __future__ import annotations

from aiohttp import web

from lbdns.events.server_sent_events import KEEP_ALIVE
from lbdns_collector.web.app_keys import CONNECTIONS, HUB
from lbdns_collector.web.event_hub import StreamKind
from lbdns_collector.web.http_responses import error, send


async def events(request: web.Request) -> web.StreamResponse:
    """Stream the whole status, the changes for a follower, or the log alone, as the query string asks."""
    hub = request.app[HUB]
    kind: StreamKind = "changes" if request.query.get("changes") else "page"
    if only := request.query.get("only"):
        if only != "log" or kind == "changes":
            return error(400, f"only={only} is not valid; use only=log, without changes, to receive the log alone")
        kind = "log"
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    if hub.is_full:
        return error(
            503, "too many event streams are open; /api/v1/status returns the same document once", Retry_After="10"
        )
    transport = request.transport
    request.app[CONNECTIONS].is_stream(request.protocol)
    stream, first = await hub.open(transport.abort if transport else lambda: None, kind)
    try:
        await response.prepare(request)
        waiting: bytes | None = first
        while waiting is not None:
            if kind == "changes":
                await response.write(waiting or KEEP_ALIVE)  # unscheduled, because DNS answers depend on it
            else:
                await send(request, response, waiting or KEEP_ALIVE)
            waiting = await stream.next()
    except (TimeoutError, ConnectionError):
        pass  # the client has disconnected
    finally:
        hub.close(stream)
    return response
