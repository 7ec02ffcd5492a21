"""The HTTP application: read-only pages over a StatusSource. Changes go through the control socket instead."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from aiohttp import web

from lbdns_collector.readers import Readers
from lbdns_collector.web import api, streaming
from lbdns_collector.web.access import HEALTH, Handler, admit
from lbdns_collector.web.connections import Connections
from lbdns_collector.web.gate import Gate
from lbdns_collector.web.hub import Hub
from lbdns_collector.web.keys import CONNECTIONS, GATE, HUB, METRICS, READERS, SOURCE, STATUS
from lbdns_collector.web.metrics import metrics_text
from lbdns_collector.web.render import status_pieces
from lbdns_collector.web.responses import document, error, joined
from lbdns_collector.web.shared import Shared
from lbdns_collector.web.source import StatusSource, situation

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
    "/api/v1/status": api.status,
    "/api/v1/log": api.events_so_far,
    "/api/v1/explain": api.explain,
    "/api/v1/history": api.history,
    "/api/v1/events": streaming.events,
    "/metrics": api.metrics,
    HEALTH: api.health,
}
PATHS: Final = ("/", *ROUTES)


def _files() -> dict[str, tuple[Path, str]]:
    """What is below ``static``: its path here, its file and its type."""
    found = sorted(path for path in STATIC.rglob("*") if path.suffix in TYPES and path.is_file())
    names = [(path, f"/{path.relative_to(STATIC).as_posix()}") for path in found]
    return {"/" if name == f"/{INDEX}" else name: (path, TYPES[path.suffix]) for path, name in names}


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


def make_app(source: StatusSource, readers: Readers | None = None) -> web.Application:
    """The application. It holds no state but the connections and event streams that are open."""
    app = web.Application(middlewares=[_errors_as_json, admit], client_max_size=1024)
    gate = Gate(lambda: _queries_here(source), lambda: sum(len(pool.members) for pool in source.farm.pools))
    app[SOURCE], app[GATE], app[CONNECTIONS] = source, gate, Connections()
    app[READERS] = readers or Readers()
    app[STATUS] = Shared(_status_of(source, gate))
    app[METRICS] = Shared(_metrics_of(source, gate, app[READERS]))
    app[HUB] = Hub(source, gate, app[STATUS])
    app.cleanup_ctx.append(_run)
    app.on_shutdown.append(_end_streams)
    app.on_response_prepare.append(_add_headers)
    for path, handler in ROUTES.items():
        app.router.add_get(path, handler)
    for path, (file, content_type) in FILES.items():
        app.router.add_get(path, _file(file, content_type))
    return app


def _status_pieces(source: StatusSource) -> Iterator[bytes]:
    yield from status_pieces(situation(source))  # looked at when the first one is made, within the gate


def _status_of(source: StatusSource, gate: Gate) -> Callable[[], Awaitable[bytes]]:
    async def build() -> bytes:
        await source.refresh()
        return await joined(gate, _status_pieces(source))

    return build


def _queries_here(source: StatusSource) -> int:
    """Queries that this process has answered: those of workers don't wait for its pages."""
    return source.queries if source.workers <= 1 else 0


def _metrics_of(source: StatusSource, gate: Gate, readers: Readers) -> Callable[[], Awaitable[bytes]]:
    async def build() -> bytes:
        await source.refresh()
        return await gate.beside(metrics_text(source, {str(why): count for why, count in readers.refused.items()}))

    return build


async def _run(app: web.Application) -> AsyncIterator[None]:
    app[GATE].start()
    app[HUB].start()
    yield
    await app[HUB].stop()
    for shared in (app[STATUS], app[METRICS]):
        await shared.stop()
    app[GATE].stop()


async def _end_streams(app: web.Application) -> None:
    app[HUB].end_streams()


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "lbdns"  # versions of what it stands on are nobody's business


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return error(404, f"there is no {request.path}; there is: {', '.join(PATHS)}")
    except web.HTTPMethodNotAllowed as wrong:
        what = f"{request.method} is not possible here: HTTP is read-only, use 'lbdns --help'"
        return error(405, what, Allow=", ".join(sorted(wrong.allowed_methods)))
    except web.HTTPException as wrong:
        return error(wrong.status, wrong.reason)
    except ConnectionError:
        raise  # the reader has gone
    except Exception:
        log.exception("%s could not be answered", request.path)
        return error(500, "something went wrong here; the log of the program says what")


def _file(path: Path, content_type: str) -> Handler:
    body = path.read_bytes()

    async def serve(request: web.Request) -> web.StreamResponse:
        return await document(request, body, content_type)

    return serve
