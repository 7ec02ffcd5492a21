"""The HTTP application: serves documents, metrics and pages from a StatusSource, and passes on steering commands."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from lbdns_collector.prometheus.status_families import metrics_text
from lbdns_collector.status.status_document import status_pieces
from lbdns_collector.status.status_source import StatusSource, status_inputs
from lbdns_collector.web import endpoints, steering
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.admission import Handler, admit
from lbdns_collector.web.app_keys import ACCESS, HUB, METRICS, SCALER, SCHEDULER, SOURCE, STATUS
from lbdns_collector.web.event_hub import EventHub
from lbdns_collector.web.expensive_requests import ExpensiveRequests
from lbdns_collector.web.http_responses import document, error, joined
from lbdns_collector.web.render_scheduler import RenderScheduler
from lbdns_collector.web.request_heads import HEALTH, LIVE
from lbdns_collector.web.scaler_reader import PATH as SCALER_PATH
from lbdns_collector.web.scaler_reader import ScalerReader
from lbdns_collector.web.single_flight import SingleFlight

log = logging.getLogger("lbdns.web")

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
INDEX: Final = "index.html"
ROUTES: Final[dict[str, Handler]] = {
    "/api/v1/status": endpoints.status,
    "/api/v1/reports": endpoints.reports,
    "/api/v1/log": endpoints.events_so_far,
    "/api/v1/explain": endpoints.explain,
    "/api/v1/history": endpoints.history,
    "/api/v1/plots": endpoints.plots,
    "/api/v1/events": endpoints.events,
    SCALER_PATH: endpoints.scaler,
    "/metrics": endpoints.metrics,
    HEALTH: endpoints.health,
    LIVE: endpoints.live,
}
#: Built for a single client; other documents are shared
EXPENSIVE: Final = ("/api/v1/log", "/api/v1/explain", "/api/v1/history", "/api/v1/plots")
PATHS: Final = ("/", *ROUTES)


def _files() -> dict[str, tuple[bytes, str]]:
    found = sorted(path for path in STATIC.rglob("*") if path.suffix in TYPES and path.is_file())
    names = [(path, f"/{path.relative_to(STATIC).as_posix()}") for path in found]
    return {"/" if name == f"/{INDEX}" else name: (path.read_bytes(), TYPES[path.suffix]) for path, name in names}


#: The page's files: each path's content and type. They are read when this module is imported, because they may be
#: unreadable once the server has dropped root privileges
FILES: Final = _files()

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_app(source: StatusSource, access: AccessControl | None = None) -> web.Application:
    """Return the HTTP application, whose only state consists of open connections and event streams."""
    app = web.Application(middlewares=[admit, _errors_as_json], client_max_size=1024)
    scheduler = RenderScheduler(partial(_queries_here, source), partial(_member_count, source))
    app[SOURCE], app[SCHEDULER] = source, scheduler
    app[ACCESS] = access or AccessControl()
    app[STATUS] = SingleFlight(partial(_status, source, scheduler))
    app[METRICS] = SingleFlight(partial(_metrics, source, scheduler, app[ACCESS]))
    app[SCALER] = SingleFlight(ScalerReader(lambda: source.members.farm.config.web.scaler, scheduler).read)
    app[HUB] = EventHub(source, scheduler, app[STATUS])
    app.cleanup_ctx.append(_run)
    app.on_shutdown.append(_end_streams)
    app.on_response_prepare.append(_add_headers)
    expensive = ExpensiveRequests()
    for path, handler in ROUTES.items():
        app.router.add_get(path, expensive.limited(handler) if path in EXPENSIVE else handler)
    for path in steering.PATHS:
        app.router.add_post(path, steering.steer)
    for path, (body, content_type) in FILES.items():
        app.router.add_get(path, _file(body, content_type))
    return app


def _status_pieces(source: StatusSource) -> Iterator[bytes]:
    # The source is read when the first piece is made, inside a scheduled slice
    yield from status_pieces(status_inputs(source))


async def _status(source: StatusSource, scheduler: RenderScheduler) -> bytes:
    await source.counters.refresh()
    return await joined(scheduler, _status_pieces(source))


def _queries_here(source: StatusSource) -> int:
    """Return the number of queries to this process, or 0 if only workers receive queries.

    Building pages in this process cannot delay the queries that workers receive.
    """
    return source.counters.queries if source.program.workers <= 1 else 0


def _member_count(source: StatusSource) -> int:
    return sum(len(pool.members) for pool in source.members.farm.pools)


async def _metrics(source: StatusSource, scheduler: RenderScheduler, access: AccessControl) -> bytes:
    await source.counters.refresh()
    return await scheduler.beside(metrics_text(source, {str(why): count for why, count in access.refused.items()}))


async def _run(app: web.Application) -> AsyncIterator[None]:
    app[SCHEDULER].start()
    app[HUB].start()
    yield
    await app[HUB].stop()
    for shared in (app[STATUS], app[METRICS], app[SCALER]):
        await shared.stop()
    app[SCHEDULER].stop()


async def _end_streams(app: web.Application) -> None:
    app[HUB].end_streams()


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "lbdns"  # clients need not know the versions of Python and aiohttp


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return error(404, f"{request.path} does not exist; available paths: {', '.join(PATHS)}")
    except web.HTTPMethodNotAllowed as wrong:
        allowed = ", ".join(sorted(wrong.allowed_methods))
        reason = "it is read-only; to change the server, use commands such as 'lbdns drain'"
        if "GET" not in wrong.allowed_methods:
            reason = f"use {allowed}"
        return error(405, f"{request.method} is not allowed for {request.path}: {reason}", Allow=allowed)
    except web.HTTPException as wrong:
        return error(wrong.status, wrong.reason)
    except ConnectionError:
        raise  # the client has disconnected
    except Exception:
        log.exception("%s: the request failed", request.path)
        return error(500, "internal error; the program's log has the details")


def _file(body: bytes, content_type: str) -> Handler:
    async def serve(request: web.Request) -> web.StreamResponse:
        return await document(request, body, content_type)

    return serve
