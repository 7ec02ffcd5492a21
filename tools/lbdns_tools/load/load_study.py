"""Plans the runs that the options of ``lbdns-load`` request, without executing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.access_log import read_access_log
from lbdns_tools.load.load_plan import SPACINGS, ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule, Spacing
from lbdns_tools.load.phases_file import TARGETS, read_phases
from lbdns_tools.load.rate_trace import read_trace
from lbdns_tools.load.request_mix import ORDERS, RequestMix, file_set, one_url, read_urls
from lbdns_tools.load.result_rows import LoadPoint
from lbdns_tools.load.tls_connection import tls_context

CLIENTS: Final = 20  # default without clients and rate: the lowest number in WebStone's runs
SECONDS: Final = 10.0  # default without seconds and requests
OPEN_LOADS: Final = ("rate", "ramp", "trace", "access_log")
LOADS: Final = ("clients", *OPEN_LOADS, "phases")
SEARCHES: Final = ("rate", "connections", "clients")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run and the load that it measures (``point``)."""

    point: LoadPoint
    run: LoadRun

    def again(self, repetition: int) -> LoadRun:
        """Return the run for ``repetition``, counted from 1. Repetitions differ only in label and seed."""
        label = self.run.label if repetition == 1 else f"{self.run.label}, run {repetition}"
        return replace(self.run, label=label, seed=self.run.seed + repetition - 1)


def plan(
    settings: LoadRun, label: str, *phases: LoadPhase, clients: int | None = None, rate: float | None = None
) -> PlannedRun:
    """Return a planned run of ``phases``. Callers pass ``clients`` or ``rate`` only if the value is constant during the
    run. Raises ConfigError."""
    if settings.resolve.mode == "1999" and not settings.resolve.seconds:
        raise ConfigError("--resolve 1999 requires a number of clients or a time; use --clients, or write 1999:20s")
    name = label if rate is None else f"{rate:g}/s"
    if clients is not None:
        name = f"{clients} clients"
    point = LoadPoint(label, clients, rate, str(settings.resolve), settings.keep_alive)
    return PlannedRun(point, replace(settings, label=name, phases=phases))


def closed(settings: LoadRun, label: str, mix: RequestMix, load: ClosedLoop) -> PlannedRun:
    """Return a planned run with a fixed number of clients that wait for each response (a closed loop). ``load.seconds``
    excludes the warm-up. In the resolve mode ``1999``, the default for the longest interval is a second per client."""
    resolve = settings.resolve
    if resolve.mode == "1999" and not resolve.seconds:
        settings = replace(settings, resolve=replace(resolve, seconds=float(load.clients)))
    if load.seconds:
        load = replace(load, seconds=settings.warm_up_s + load.seconds)
    return plan(settings, label, LoadPhase(0.0, load, mix, label), clients=load.clients)


def opened(settings: LoadRun, label: str, mix: RequestMix, load: OpenLoop) -> PlannedRun:
    """Return a planned run at given request rates (an open loop): a fixed rate, a ramp or a trace.

    During the warm-up, requests are sent at the first rate of ``load``.
    """
    phases = [LoadPhase(settings.warm_up_s, load, mix, label)]
    if settings.warm_up_s:
        warm_up = OpenLoop(load.rates[:1], settings.warm_up_s, load.spacing)
        phases.append(LoadPhase(0.0, warm_up, mix, f"{label} (warm-up)"))
    return plan(settings, label, *phases, rate=load.rates[0] if len(load.rates) == 1 else None)


def make_study(options: Mapping[str, Any], report: Callable[[str], None] = lambda text: None) -> tuple[PlannedRun, ...]:
    """Return the planned runs that the command-line options specify.

    ``report`` is called with a note on input that is skipped. Raises ConfigError.
    """
    settings = settings_of(options)
    if options["phases"] is not None:
        mix = mix_of(options) if any(options[name] for name in TARGETS) else None
        label = options["label"] or options["phases"].name
        return (plan(settings, label, *read_phases(options["phases"], mix, report)),)
    if options["access_log"] is not None:
        return (_replayed(options, settings, report),)
    mix = mix_of(options)
    label = options["label"] or mix.name
    if not any(options[name] for name in OPEN_LOADS):
        seconds = options["seconds"] or (0.0 if options["requests"] else SECONDS)
        return tuple(
            closed(settings, label, mix, ClosedLoop(count, seconds, options["requests"] or 0, options["think"] or 0.0))
            for count in options["clients"] or (CLIENTS,)
        )
    return tuple(opened(settings, label, mix, load) for load in _open_loads(options))


def _open_loads(options: Mapping[str, Any]) -> tuple[OpenLoop, ...]:
    spacing, requests = options["spacing"] or SPACINGS[0], options["requests"] or 0
    if options["rate"]:
        return tuple(steady(rate, options["seconds"], requests, spacing) for rate in options["rate"])
    if options["ramp"]:
        rates = options["ramp"]
        step_s = (options["seconds"] or SECONDS) / (len(rates) - 1)
        return (OpenLoop(rates, step_s, spacing, ramp=True, requests=requests),)
    try:
        rates = read_trace(options["trace"], options["trace_column"] or "", _span(options))
    except ConfigError as error:
        raise ConfigError(*(f"--trace: {finding}" for finding in error.findings)) from None
    return (OpenLoop(rates, options["seconds"] / len(rates), spacing, requests=requests),)


def _span(options: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the range to which rates are scaled, or None if they are not scaled."""
    return None if options["max_rate"] is None else (options["min_rate"] or 0.0, options["max_rate"])


def _replayed(options: Mapping[str, Any], settings: LoadRun, report: Callable[[str], None]) -> PlannedRun:
    """Return the planned run that replays an access log. Raises ConfigError."""
    spacing, requests = options["spacing"] or SPACINGS[0], options["requests"] or 0
    try:
        log = read_access_log(options["access_log"], report)
        load = log.load(options["seconds"] or 0.0, _span(options), spacing, requests)
        mix = log.mix(options["base"], options["url_order"] or ORDERS[0])
    except ConfigError as error:
        raise ConfigError(*(f"--access-log: {finding}" for finding in error.findings)) from None
    except ValueError as error:
        raise ConfigError(f"--base: {error}") from None
    return opened(settings, options["label"] or log.name, mix, load)


def steady(rate: float, seconds: float | None, requests: int, spacing: Spacing) -> OpenLoop:
    """Return a fixed-rate open loop that ends after ``seconds`` or ``requests`` requests, whichever comes first."""
    seconds = seconds or (requests / rate if requests else SECONDS)
    return OpenLoop((rate,), seconds, spacing, requests=requests)


def settings_of(options: Mapping[str, Any]) -> LoadRun:
    """Return a run with the settings from the command line, but without phases. Raises ConfigError."""
    server = options["resolver"]
    resolve: ResolveRule = options["resolve"] or ResolveRule("connection" if server else "system")
    if server is not None and resolve.mode == "system":
        raise ConfigError(
            "--resolve system and --resolver cannot be combined; use another mode, for example --resolve once"
        )
    resolve = replace(resolve, server=server)
    tls_context(options["ca_file"], options["insecure"])  # only checks the options
    warm_up_s, limit = options["warm_up"] or 0.0, options["max_connections"] or 0
    return LoadRun(
        resolve,
        options["keep_alive"],
        options["timeout"],
        warm_up_s,
        limit,
        options["seed"],
        ca_file=options["ca_file"],
        insecure=options["insecure"],
    )


def mix_of(options: Mapping[str, Any]) -> RequestMix:
    """Return the targets that the options specify: a URL, a file of URLs, or WebStone's files. Raises ConfigError."""
    try:
        if options["urls"] is not None:
            return read_urls(Path(options["urls"]))
        if options["files"] is not None:
            return file_set(options["files"], options["base"])
        return one_url(options["url"])
    except ConfigError as error:
        raise ConfigError(*(f"--urls: {finding}" for finding in error.findings)) from None
    except ValueError as error:
        raise ConfigError(f"{'--base' if options['files'] else 'URL'}: {error}") from None
