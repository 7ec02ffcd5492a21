"""HTTP request handlers for the status, event stream, log, explanations, history, metrics and health check."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from lbdns.events.event_log import EVENT_KINDS, KEPT, LoggedEvent
from lbdns.events.server_sent_events import KEEP_ALIVE
from lbdns.history.history_plots import HistoryPlots, PlotRequest
from lbdns.history.history_sample import OF_SERVER
from lbdns.text.suggestions import nearest
from lbdns_collector.status.status_document import separated, to_json
from lbdns_collector.web.app_keys import HUB, METRICS, SCALER, SCHEDULER, SOURCE, STATUS
from lbdns_collector.web.event_hub import StreamKind
from lbdns_collector.web.gated_connection import connection_of
from lbdns_collector.web.http_responses import document, error, joined, send, send_at_once
from lbdns_collector.web.refusal import JSON
from lbdns_shared.errors import ConfigError, LbdnsError, UnknownNameError
from lbdns_shared.report import is_host_name

LIMIT: Final = 200  # events, unless the client asks for another number
SPAN: Final = 3600.0  # seconds of history, unless the client asks for another span
POINTS: Final = 600  # about the width of a plot in pixels
MAX_POINTS: Final = 5000
MAX_VALUES: Final = 200_000  # of all members together; each takes about 40 bytes while a document is built
LATEST: Final = 1e11  # Unix seconds (the year 5138); far greater numbers overflow
MAX_NAME: Final = 300  # characters
MAX_LINES: Final = 50  # members with a series of their own in a plot; a viewer can tell far fewer apart
MAX_METRICS: Final = 12  # of one request for plots
HISTORY_OFF: Final = "history recording is off; set [history] on = true in the server's configuration"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def status(request: web.Request) -> web.StreamResponse:
    return await document(request, await request.app[STATUS].get())


async def metrics(request: web.Request) -> web.StreamResponse:
    return await document(request, await request.app[METRICS].get(), METRICS_TYPE)


async def scaler(request: web.Request) -> web.StreamResponse:
    """Send the status document of the configured scaler, or an error message."""
    answer = await request.app[SCALER].get()
    if answer.status == web.HTTPOk.status_code:
        return await document(request, answer.body)
    return web.Response(status=answer.status, body=answer.body, content_type=JSON)


async def health(request: web.Request) -> web.Response:
    """Return status 200 if the program is serving, otherwise status 503 with the reason."""
    fault = request.app[SOURCE].program.fault
    return web.Response(status=503 if fault else 200, text=f"{fault or 'ok'}\n")


async def live(_: web.Request) -> web.Response:
    """Return status 200, because the process is running, even if the program is not serving."""
    return web.Response(text="ok\n")


async def reports(request: web.Request) -> web.StreamResponse:
    """Send the collector's data about the reports of one host.

    The host's agent reads this data to find out why its reports are rejected.
    """
    host = request.query.get("host", "")
    if not is_host_name(host):
        return error(400, "host: the parameter is missing or not valid; example: /api/v1/reports?host=frodo")
    table = request.app[SOURCE].counters.report_table
    if table is None:
        return error(404, "this server follows another collector, which receives the reports; ask that collector")
    return await document(request, to_json(table.host_document(host, request.remote or "", time.time())))


async def events(request: web.Request) -> web.StreamResponse:
    """Stream the whole status, the changes for a follower, or only the log, depending on the query string."""
    hub = request.app[HUB]
    kind: StreamKind = "changes" if request.query.get("changes") else "page"
    if only := request.query.get("only"):
        if only != "log" or kind == "changes":
            return error(
                400, "only: the value must be 'log', and 'changes' must be absent; example: /api/v1/events?only=log"
            )
        kind = "log"
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    if not hub.has_room(kind):
        return error(
            503, "too many event streams are open; retry later, or read /api/v1/status instead", Retry_After="10"
        )
    connection = connection_of(request)
    waiting: bytes | None
    stream, waiting = await hub.open(connection.abort, kind)
    connection.when_lost = stream.end
    try:
        await response.prepare(request)
        while waiting is not None:
            if kind == "changes":
                await send_at_once(response, waiting or KEEP_ALIVE)
            else:
                await send(request, response, waiting or KEEP_ALIVE)
            waiting = await stream.next()
    except (TimeoutError, ConnectionError):
        pass  # the client has disconnected
    finally:
        hub.close(stream)
    return response


async def explain(request: web.Request) -> web.StreamResponse:
    """Send the explanation of the next answer for a name."""
    name = request.query.get("name", "")
    if not name or len(name) > MAX_NAME:
        return error(400, "name: the parameter is missing or too long; example: /api/v1/explain?name=best.hobbit")
    try:
        explanation = await request.app[SOURCE].selection.explain(name)
    except UnknownNameError as wrong:
        return error(404, f"name: {wrong}")
    except LbdnsError as wrong:
        return error(503, str(wrong), Retry_After="2")
    return await document(request, await joined(request.app[SCHEDULER], explanation_pieces(explanation)))


async def events_so_far(request: web.Request) -> web.StreamResponse:
    try:
        since = _number(request, "since", 0.0, 0, LATEST)
        limit = int(_number(request, "limit", LIMIT, 1, KEPT))
        kind = request.query.get("kind", "")
        if kind and kind not in EVENT_KINDS:
            raise ConfigError(f"kind: {kind!r} is not a kind of event{nearest(kind, EVENT_KINDS)}")
        found = await _events(request, since, limit, kind)
    except ConfigError as wrong:
        return error(400, str(wrong))
    return await document(request, await joined(request.app[SCHEDULER], _log_pieces(found)))


async def _events(request: web.Request, since: float, limit: int, kind: str) -> Sequence[LoggedEvent]:
    """Return the events in the history, followed by newer events that have not been written to it yet."""
    program = request.app[SOURCE].program
    fresh = [event for event in program.events.newest(KEPT, since) if kind in ("", event.kind)]
    if program.history is None or len(fresh) >= limit:
        return fresh[-limit:]
    try:
        old = await request.app[SCHEDULER].beside(program.history.events(since, limit, kind))
    except ConfigError:
        raise
    except LbdnsError:  # recording is off, or the history cannot be read; its own events say so
        old = []
    known = {(event.time, event.kind, event.text) for event in fresh}
    return ([event for event in old if (event.time, event.kind, event.text) not in known] + fresh)[-limit:]


async def history(request: web.Request) -> web.StreamResponse:
    recorded = request.app[SOURCE].program.history
    if recorded is None:
        return error(404, HISTORY_OFF)
    try:
        pool, metric, members = _requested_series(request)
        start, end = _span(request)
        points = int(_number(request, "points", POINTS, 1, MAX_POINTS))
        points = min(points, max(MAX_VALUES // max(_series_count(request, pool, members), 1), 1))
        found = await request.app[SCHEDULER].beside(recorded.series(pool, metric, members, start, end, points))
    except ConfigError as wrong:
        return error(400, str(wrong))
    except LbdnsError as wrong:
        return error(404, str(wrong))
    return await document(request, await joined(request.app[SCHEDULER], _series_pieces(found.document())))


async def plots(request: web.Request) -> web.StreamResponse:
    """Send the data of several plots of one pool. All plots share one list of times."""
    recorded = request.app[SOURCE].program.history
    if recorded is None:
        return error(404, HISTORY_OFF)
    try:
        found = await request.app[SCHEDULER].beside(recorded.plots(_requested_plots(request)))
    except ConfigError as wrong:
        return error(400, str(wrong))
    except LbdnsError as wrong:
        return error(404, str(wrong))
    return await document(request, await joined(request.app[SCHEDULER], _plot_pieces(found)))


def _requested_plots(request: web.Request) -> PlotRequest:
    metrics, server = (list(dict.fromkeys(request.query.getall(name, ()))) for name in ("metric", "server"))
    pool = request.query.get("pool", "")
    members = _requested_members(request, pool)
    if not (metrics or server) or (metrics and not pool):
        raise ConfigError("the parameters are incomplete; example: /api/v1/plots?pool=web&metric=cpu_idle&server=types")
    for name, found, most in (("metric", [*metrics, *server], MAX_METRICS), ("member", members, MAX_LINES)):
        if len(found) > most:
            raise ConfigError(f"{name}: at most {most} values are allowed, not {len(found)}")
    for metric in server:
        if metric not in OF_SERVER:
            raise ConfigError(f"server: {metric!r} is not a metric of the server{nearest(metric, OF_SERVER)}")
    start, end = _span(request)
    step = _number(request, "step", (end - start) / POINTS, 0.1, LATEST)
    return PlotRequest(pool, metrics, server, members, start, end, max(step, (end - start) / MAX_POINTS))


def _requested_series(request: web.Request) -> tuple[str, str, Sequence[str]]:
    pool, metric = request.query.get("pool", ""), request.query.get("metric", "")
    if not metric:
        raise ConfigError("metric: the parameter is missing; example: /api/v1/history?pool=web&metric=score")
    return pool, metric, _requested_members(request, pool)


def _requested_members(request: web.Request, pool: str) -> Sequence[str]:
    members = list(dict.fromkeys(request.query.getall("member", ())))
    if not pool:
        return members
    pools = {known.name: known for known in request.app[SOURCE].members.farm.pools}
    if pool not in pools:
        raise ConfigError(f"pool: {pool!r} does not exist{nearest(pool, pools)}")
    known = dict.fromkeys(member.name for member in pools[pool].members)
    for member in members:
        if member not in known:
            raise ConfigError(f"member: pool {pool} has no member {member!r}{nearest(member, known)}")
    return members


def _span(request: web.Request) -> tuple[float, float]:
    """Return the requested time span in Unix seconds, by default the last hour."""
    end = _number(request, "to", time.time(), 0, LATEST)
    start = _number(request, "from", end - SPAN, 0, LATEST)
    if start >= end:
        raise ConfigError("'from' must be earlier than 'to' (both in Unix seconds)")
    return start, end


def _series_count(request: web.Request, pool: str, members: Sequence[str]) -> int:
    pools = request.app[SOURCE].members.farm.pools
    return len(members) or sum(len(known.members) for known in pools if known.name == pool)


def _number(request: web.Request, name: str, default: float, least: float, most: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:  # never true for NaN
        raise ConfigError(f"{name}: {text[:50]!r} is not a number from {least:g} to {most:g}")
    return value


def _log_pieces(events: Sequence[LoggedEvent]) -> Iterator[bytes]:
    yield b'{"events":['
    yield from separated(to_json(event.document()) for event in events)
    yield b"]}"


def explanation_pieces(explanation: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield an explanation as JSON in small pieces, with the key "members" last."""
    head = {key: value for key, value in explanation.items() if key != "members"}
    yield to_json(head).removesuffix(b"}") + b',"members":['
    yield from separated(to_json(member) for member in explanation.get("members", ()))
    yield b"]}"


def _series_pieces(series: Mapping[str, Any]) -> Iterator[bytes]:
    head = {key: value for key, value in series.items() if key != "series"}
    yield to_json(head).removesuffix(b"}") + b',"series":{'
    yield from separated(to_json(name) + b":" + to_json(values) for name, values in series["series"].items())
    yield b"}}"


def _plot_pieces(plots: HistoryPlots) -> Iterator[bytes]:
    """Yield the data of several plots as JSON, with one piece for each metric."""
    head = {"pool": plots.pool, "tier": plots.tier, "step_s": plots.step_s, "times": plots.times}
    yield to_json(head).removesuffix(b"}") + b',"metrics":{'
    yield from separated(to_json(name) + b":" + to_json(plot.document()) for name, plot in plots.metrics.items())
    yield b'},"server":{'
    yield from separated(to_json(name) + b":" + to_json(series) for name, series in plots.server.items())
    yield b"}}"
