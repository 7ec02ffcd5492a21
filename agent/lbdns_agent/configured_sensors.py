"""Selects the sensors for the catalogue's metrics, the web server, and the metrics that the administrator defines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Union

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.metrics import METRIC_SENSORS, AnySensor
from lbdns_agent.metrics.web_server_requests import parse
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.sensor import MeasuredHost, MetricValues, NonBlockingSensor, Sensor
from lbdns_agent.sources.metric_definition import CommandSource, FileSource, MetricDefinition, MetricSource
from lbdns_agent.sources.short_file import read_short_file
from lbdns_agent.webserver.nginx_workers import NginxWorkers
from lbdns_agent.webserver.status_page import TIMEOUT, ServerStatusPage
from lbdns_agent.webserver.web_server_finder import FoundServer, WebServerFinder, WorkerReader
from lbdns_agent.webserver.web_server_options import WEB_SERVER_METRICS, WebServerOptions
from lbdns_agent.webserver.worker_status import WorkerStatus, worker_metrics
from lbdns_shared.metric_catalogue import CATALOGUE, STANDARD_METRICS

WORKER_METRICS: Final = ("requests_per_s", "busy_workers", "idle_workers", "requests_total")
LARGEST_PAGE: Final = 4 * 1024 * 1024  # bytes of a page with metrics

#: Maps each metric to its number, or to the reason why the source has none
SourceReading = Mapping[str, Union[float, str]]


class ApacheWorkers:
    """The status page of one Apache."""

    def __init__(self, page: ServerStatusPage) -> None:
        self._page = page

    def read(self) -> ReadingSteps[WorkerStatus]:
        """Request the page. Raises MissingValueError or ValueError."""
        return parse((yield from self._page.fetch()))


def configured_sensors(options: AgentOptions) -> tuple[dict[str, AnySensor], Callable[[], str]]:
    """Return two values: a map from each metric to its sensor, and a function that describes the measured web server.

    A metric defined in the configuration file replaces the catalogue's metric of the same name.
    """
    names = CATALOGUE if options.all_metrics else STANDARD_METRICS
    sensors = {name: METRIC_SENSORS[name] for name in names}
    describe: Callable[[], str] = str
    if options.web_server is not None:
        sensor = _worker_sensor(options.web_server.kind, open_web_server(options.web_server))
        sensors.update(dict.fromkeys((*WORKER_METRICS, *WEB_SERVER_METRICS[options.web_server.kind]), sensor))
        describe = functools.partial(str, options.web_server)
    elif options.status is not None and options.finds_web_server:
        page = ServerStatusPage(options.status)
        finder = WebServerFinder(FoundServer("Apache", str(options.status), ApacheWorkers(page)))
        sensors.update(dict.fromkeys(WORKER_METRICS, _worker_sensor("server-status", finder)))
        describe = finder.description
    elif options.status is not None:
        describe = functools.partial(str, options.status)
    sensors.update(metric_sensors(options.metrics))
    return sensors, describe


def open_web_server(options: WebServerOptions) -> WorkerReader:
    """Return the reader for a web server."""
    if options.kind == "haproxy":
        from lbdns_agent.webserver.haproxy_workers import HaproxyWorkers  # loads csv, which nothing else needs

        return HaproxyWorkers(options.place, options.workers, options.proxies)
    assert not isinstance(options.place, str)
    return NginxWorkers(options.place, options.workers)


def _worker_sensor(source: str, reader: WorkerReader) -> NonBlockingSensor[WorkerStatus]:
    return NonBlockingSensor(source, lambda _: reader.read(), worker_metrics, TIMEOUT)


def metric_sensors(definitions: Iterable[MetricDefinition]) -> dict[str, AnySensor]:
    """Return a map from each metric to its sensor. Metrics with the same source share a sensor, and one reading."""
    by_source: dict[MetricSource, list[MetricDefinition]] = {}
    for definition in definitions:
        by_source.setdefault(definition.source, []).append(definition)
    return {
        definition.name: sensor
        for source, group in by_source.items()
        for sensor in [_source_sensor(source, group)]
        for definition in group
    }


def _source_sensor(source: MetricSource, group: Sequence[MetricDefinition]) -> AnySensor:
    rates = frozenset(definition.name for definition in group if definition.is_rate)

    def values(before: SourceReading | None, now: SourceReading, seconds: float) -> MetricValues:
        return source_metrics(rates, before, now, seconds)

    if isinstance(source, FileSource):
        file = source

        def read_file(_: Any) -> SourceReading:
            return find_values(group, read_short_file(file))

        return Sensor(str(source), read_file, values, read_psutil=read_file)
    if isinstance(source, CommandSource):
        from lbdns_agent.sources.command_output import CommandOutput  # loads subprocess, which nothing else needs

        fetch = CommandOutput(source).read
    else:
        fetch = ServerStatusPage(source.url, advice={}, largest=LARGEST_PAGE).fetch

    def read(_: MeasuredHost) -> ReadingSteps[SourceReading]:
        return find_values(group, (yield from fetch()))

    return NonBlockingSensor(str(source), read, values, TIMEOUT)


def find_values(group: Iterable[MetricDefinition], text: bytes) -> SourceReading:
    """Return, for each metric in ``group``, its value in ``text`` or the reason why it has none."""
    found: dict[str, float | str] = {}
    for definition in group:
        try:
            found[definition.name] = definition.selector.find(text)
        except ValueError as error:
            found[definition.name] = f"{definition.source}: {error}"
    return found


def source_metrics(
    rates: frozenset[str], before: SourceReading | None, now: SourceReading, seconds: float
) -> MetricValues:
    """Return the metrics for the time between two readings. Those in ``rates`` are increases per second. Pure.

    If a counter has decreased, because its program was restarted, its rate is omitted until the next reading.
    """
    found: dict[str, float | str] = {}
    for name, value in now.items():
        if name not in rates or isinstance(value, str):
            found[name] = value
            continue
        previous = before.get(name) if before is not None else None
        if isinstance(previous, float) and value >= previous and seconds > 0:
            found[name] = (value - previous) / seconds
    return found
