"""The HTTP application: read-only pages over a StatusSource. Changes go through the control socket instead."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from lbdns_collector.event_stream import KEEP_ALIVE
from lbdns_collector.web.hub import Hub
from lbdns_collector.web.metrics import metrics_text
from lbdns_collector.web.render import status_json_async
from lbdns_collector.web.source import StatusSource, situation

log = logging.getLogger("lbdns.web")

SOURCE: Final = web.AppKey("source", StatusSource)
HUB: Final = web.AppKey("hub", Hub)

STATIC: Final = Path(__file__).parent / "static"
FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
PATHS: Final = ("/", "/metrics", "/healthz", "/api/v1/status", "/api/v1/events")

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(source: StatusSource) -> web.Application:
    """The application. It holds no state but the event streams that are open."""
    app = web.Application(middlewares=[_errors_as_json], client_max_size=1024)
    app[SOURCE] = source
    app[HUB] = Hub(source)
    app.cleanup_ctx.append(_run_hub)
    app.on_shutdown.append(_end_streams)
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/api/v1/status", _status)
    app.router.add_get("/api/v1/events", _events)
    for path, (name, content_type) in FILES.items():
        app.router.add_get(path, _file(STATIC / name, content_type))
    return app


async def _run_hub(app: web.Application) -> AsyncIterator[None]:
    app[HUB].start()
    yield
    await app[HUB].stop()


async def _end_streams(app: web.Application) -> None:
    app[HUB].end_streams()


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _error(404, f"there is no {request.path}; there is: {', '.join(PATHS)}")
    except web.HTTPMethodNotAllowed as error:
        response = _error(405, f"{request.method} is not possible here: HTTP is read-only, use 'lbdns --help'")
        response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPException as error:
        return _error(error.status, error.reason)
    except Exception:
        log.exception("%s could not be answered", request.path)
        return _error(500, "something went wrong here; the log of the program says what")


def _error(status: int, what: str) -> web.Response:
    return web.json_response({"error": what}, status=status)


def _file(path: Path, content_type: str) -> Handler:
    body = path.read_bytes()

    async def serve(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": "no-cache"})

    return serve


async def _metrics(request: web.Request) -> web.Response:
    await request.app[SOURCE].refresh()
    text = await metrics_text(request.app[SOURCE])
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _healthz(request: web.Request) -> web.Response:
    if request.app[SOURCE].serving:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="not serving\n")


async def _status(request: web.Request) -> web.Response:
    await request.app[SOURCE].refresh()
    body = await status_json_async(situation(request.app[SOURCE]))
    return web.Response(body=body, content_type="application/json")


async def _events(request: web.Request) -> web.StreamResponse:
    """Server-sent events until the reader goes, is too slow, or the program stops."""
    hub = request.app[HUB]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    if hub.is_full:
        return _error(503, "too many event streams are open; /api/v1/status tells the same, once")
    transport = request.transport
    stream, first = await hub.open(transport.abort if transport else lambda: None, bool(request.query.get("changes")))
    try:
        await response.prepare(request)
        await response.write(first)
        while (events := await stream.next()) is not None:
            await response.write(events or KEEP_ALIVE)
    except (TimeoutError, ConnectionError):
        pass  # the reader has gone
    finally:
        hub.close(stream)
    return response
