"""The documents: status, events so far, explanation, history, metrics, health."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from lbdns.errors import ConfigError, LbdnsError, UnknownNameError
from lbdns.events import KEPT, KINDS, Event
from lbdns.toml_table import nearest
from lbdns_collector.web.keys import GATE, METRICS, SOURCE, STATUS
from lbdns_collector.web.render import to_json
from lbdns_collector.web.responses import document, error, joined

LIMIT: Final = 200  # events that are told unless a number is asked for
SPAN: Final = 3600.0  # seconds of history that are told unless others are asked for
POINTS: Final = 600  # as many as a plot has pixels, about
MAX_POINTS: Final = 5000
MAX_NAME: Final = 300  # characters
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def status(request: web.Request) -> web.StreamResponse:
    return await document(request, await request.app[STATUS].get())


async def metrics(request: web.Request) -> web.StreamResponse:
    return await document(request, await request.app[METRICS].get(), METRICS_TYPE)


async def health(request: web.Request) -> web.Response:
    if request.app[SOURCE].serving:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="not serving\n")


async def explain(request: web.Request) -> web.StreamResponse:
    name = request.query.get("name", "")
    if not name or len(name) > MAX_NAME:
        return error(400, "name: is missing, or too long; ask such as /api/v1/explain?name=best.hobbit")
    try:
        told = await request.app[SOURCE].explain(name)
    except UnknownNameError as wrong:
        return error(404, f"name: {wrong}")
    except LbdnsError as wrong:
        return error(503, str(wrong), Retry_After="2")
    return await document(request, await joined(request.app[GATE], explanation_pieces(told)))


async def events_so_far(request: web.Request) -> web.StreamResponse:
    try:
        since = _number(request, "since", 0.0)
        limit = int(_number(request, "limit", LIMIT, 1, KEPT))
        kind = request.query.get("kind", "")
        if kind and kind not in KINDS:
            raise ConfigError(f"kind: there are no events of kind {kind!r}{nearest(kind, KINDS)}")
        found = await _events(request, since, limit, kind)
    except ConfigError as wrong:
        return error(400, str(wrong))
    return await document(request, await joined(request.app[GATE], _log_pieces(found)))


async def _events(request: web.Request, since: float, limit: int, kind: str) -> Sequence[Event]:
    """Those of the history, which is written every few seconds, and after them those of memory."""
    source = request.app[SOURCE]
    fresh = [event for event in source.events.newest(KEPT, since) if kind in ("", event.kind)]
    if source.history is None or len(fresh) >= limit:
        return fresh[-limit:]
    try:
        old = await request.app[GATE].beside(source.history.events(since, limit, kind))
    except ConfigError:
        raise
    except LbdnsError:  # nothing is recorded, or it can't be read just now: its own events say so
        old = []
    known = {(event.time, event.kind, event.text) for event in fresh}
    return ([event for event in old if (event.time, event.kind, event.text) not in known] + fresh)[-limit:]


async def history(request: web.Request) -> web.StreamResponse:
    recorded = request.app[SOURCE].history
    if recorded is None:
        return error(404, "there is no history: [history] on is false in the configuration of this server")
    try:
        pool, metric, members = _what(request)
        end = _number(request, "to", time.time())
        start = _number(request, "from", end - SPAN)
        points = int(_number(request, "points", POINTS, 1, MAX_POINTS))
        if start >= end:
            raise ConfigError("from: has to be before to; both are Unix seconds")
        found = await request.app[GATE].beside(recorded.series(pool, metric, members, start, end, points))
    except ConfigError as wrong:
        return error(400, str(wrong))
    except LbdnsError as wrong:
        return error(404, str(wrong))
    return await document(request, await joined(request.app[GATE], _series_pieces(found.document())))


def _what(request: web.Request) -> tuple[str, str, Sequence[str]]:
    """Pool, metric and members that are asked for. Raises ConfigError."""
    pool, metric, members = request.query.get("pool", ""), request.query.get("metric", ""), _members(request)
    if not metric:
        raise ConfigError("metric: is missing; ask such as /api/v1/history?pool=web&metric=score")
    if not pool:
        return pool, metric, members
    pools = {known.name: known for known in request.app[SOURCE].farm.pools}
    if pool not in pools:
        raise ConfigError(f"pool: there is no {pool!r}{nearest(pool, pools)}")
    known = [member.name for member in pools[pool].members]
    for member in members:
        if member not in known:
            raise ConfigError(f"member: there is no {member!r} in pool {pool}{nearest(member, known)}")
    return pool, metric, members


def _members(request: web.Request) -> Sequence[str]:
    return list(dict.fromkeys(request.query.getall("member", ())))


def _number(request: web.Request, name: str, default: float, least: float = -math.inf, most: float = math.inf) -> float:
    """An argument. Raises ConfigError if it is no number within its bounds."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and least <= value <= most):
        bounds = f" from {least:g} to {most:g}" if math.isfinite(least) else ""
        raise ConfigError(f"{name}: {text[:50]!r} is no number{bounds}")
    return value


def _log_pieces(events: Sequence[Event]) -> Iterator[bytes]:
    yield b'{"events":['
    for number, event in enumerate(events):
        yield (b"," if number else b"") + to_json(event.document())
    yield b"]}"


def explanation_pieces(told: Mapping[str, Any]) -> Iterator[bytes]:
    """Of a mapping whose last key is "members", or of any other."""
    yield to_json({key: value for key, value in told.items() if key != "members"}).removesuffix(b"}") + b',"members":['
    for number, member in enumerate(told.get("members", ())):
        yield (b"," if number else b"") + to_json(member)
    yield b"]}"


def _series_pieces(told: Mapping[str, Any]) -> Iterator[bytes]:
    yield to_json({key: value for key, value in told.items() if key != "series"}).removesuffix(b"}") + b',"series":{'
    for number, (name, values) in enumerate(told["series"].items()):
        yield (b"," if number else b"") + to_json(name) + b":" + to_json(values)
    yield b"}}"
