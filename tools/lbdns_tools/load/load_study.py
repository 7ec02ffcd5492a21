"""From the options of ``lbdns-load`` to the planned runs of a study. Reads files; runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule, Spacing
from lbdns_tools.load.phases_file import read_phases
from lbdns_tools.load.rate_trace import read_trace
from lbdns_tools.load.request_mix import RequestMix, file_set, one_url, read_urls
from lbdns_tools.load.result_rows import LoadPoint

CLIENTS: Final = 20  # default without clients and rate: WebStone's fewest
SECONDS: Final = 10.0  # default without seconds and requests
LOADS: Final = ("clients", "rate", "ramp", "trace", "phases")
TARGETS: Final = ("url", "urls", "files")
SEARCHES: Final = ("rate", "connections", "clients")


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The settings that all points of a study share."""

    resolve: ResolveRule
    keep_alive: bool = False
    timeout_s: float = 10.0
    warm_up_s: float = 0.0
    max_connections: int = 0
    seed: int = 1

    def run(self, label: str, *phases: LoadPhase) -> LoadRun:
        """Return the run of these phases with these settings."""
        return LoadRun(
            label,
            phases,
            self.resolve,
            self.keep_alive,
            self.timeout_s,
            self.warm_up_s,
            self.max_connections,
            self.seed,
        )

    def point(self, label: str, clients: int | None = None, rate: float | None = None) -> LoadPoint:
        return LoadPoint(label, clients, rate, str(self.resolve), self.keep_alive)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run and the point that it measures."""

    point: LoadPoint
    run: LoadRun

    def again(self, repetition: int) -> LoadRun:
        """Return the run of a repetition, counted from 1: the same run with another seed."""
        label = self.run.label if repetition == 1 else f"{self.run.label}, run {repetition}"
        return replace(self.run, label=label, seed=self.run.seed + repetition - 1)


def closed(settings: LoadSettings, label: str, mix: RequestMix, load: ClosedLoop) -> PlannedRun:
    """Return the run of a closed loop; ``load`` counts from the end of the warm-up."""
    if load.seconds:
        load = replace(load, seconds=settings.warm_up_s + load.seconds)
    run = settings.run(f"{load.clients} clients", LoadPhase(0.0, load, mix, label))
    return PlannedRun(settings.point(label, clients=load.clients), run)


def opened(settings: LoadSettings, label: str, mix: RequestMix, load: OpenLoop) -> PlannedRun:
    """A rate, a ramp or a trace; the warm-up before it has the rate with which it begins."""
    rate = load.rates[0] if len(load.rates) == 1 else None
    phases = [LoadPhase(settings.warm_up_s, load, mix, label)]
    if settings.warm_up_s:
        warm_up = OpenLoop(load.rates[:1], settings.warm_up_s, load.spacing)
        phases.append(LoadPhase(0.0, warm_up, mix, f"{label} (warm-up)"))
    return PlannedRun(settings.point(label, rate=rate), settings.run(label if rate is None else f"{rate:g}/s", *phases))


def make_study(said: Mapping[str, Any]) -> tuple[PlannedRun, ...]:
    """The points that the options of a command line ask for. Raises ConfigError."""
    settings = settings_of(said)
    if said["phases"] is not None:
        mix = mix_of(said) if any(said[name] for name in TARGETS) else None
        label = said["label"] or said["phases"].name
        return (PlannedRun(settings.point(label), settings.run(label, *read_phases(said["phases"], mix))),)
    mix = mix_of(said)
    label = said["label"] or mix.name
    if not any(said[name] for name in ("rate", "ramp", "trace")):
        seconds = said["seconds"] or (0.0 if said["requests"] else SECONDS)
        return tuple(
            closed(settings, label, mix, ClosedLoop(count, seconds, said["requests"] or 0, said["think"] or 0.0))
            for count in said["clients"] or (CLIENTS,)
        )
    return tuple(opened(settings, label, mix, load) for load in _open_loads(said))


def _open_loads(said: Mapping[str, Any]) -> tuple[OpenLoop, ...]:
    spacing, requests = spacing_of(said), said["requests"] or 0
    if said["rate"]:
        return tuple(steady(rate, said["seconds"], requests, spacing) for rate in said["rate"])
    if said["ramp"]:
        rates = said["ramp"]
        step_s = (said["seconds"] or SECONDS) / (len(rates) - 1)
        return (OpenLoop(rates, step_s, spacing, ramp=True, requests=requests),)
    span = None if said["max_rate"] is None else (said["min_rate"] or 0.0, said["max_rate"])
    try:
        rates = read_trace(said["trace"], said["trace_column"] or "", span)
    except ConfigError as error:
        raise ConfigError(*(f"--trace: {finding}" for finding in error.findings)) from None
    return (OpenLoop(rates, said["seconds"] / len(rates), spacing, requests=requests),)


def steady(rate: float, seconds: float | None, requests: int, spacing: Spacing) -> OpenLoop:
    """Return an open loop at one rate that ends after ``seconds`` or ``requests``, whichever comes first."""
    seconds = seconds or (requests / rate if requests else SECONDS)
    return OpenLoop((rate,), seconds, spacing, requests=requests)


def spacing_of(said: Mapping[str, Any]) -> Spacing:
    return "poisson" if said["spacing"] == "poisson" else "even"


def settings_of(said: Mapping[str, Any]) -> LoadSettings:
    """Return the settings of a command line. Without --resolver and --resolve, the system resolves names."""
    server = said["resolver"]
    resolve: ResolveRule = said["resolve"] or ResolveRule("connection" if server else "system")
    if server is not None and resolve.mode == "system":
        raise ConfigError(
            "--resolve system and --resolver cannot be combined; use another mode, such as --resolve once"
        )
    return LoadSettings(
        replace(resolve, server=server),
        said["keep_alive"],
        said["timeout"],
        said["warm_up"] or 0.0,
        said["max_connections"] or 0,
        said["seed"],
    )


def mix_of(said: Mapping[str, Any]) -> RequestMix:
    """Return the targets of a command line: one URL, a file of URLs, or WebStone's files. Raises ConfigError."""
    try:
        if said["urls"] is not None:
            return read_urls(Path(said["urls"]))
        if said["files"] is not None:
            return file_set(said["files"], said["base"])
        return one_url(said["url"])
    except ConfigError as error:
        raise ConfigError(*(f"--urls: {finding}" for finding in error.findings)) from None
    except ValueError as error:
        raise ConfigError(f"{'--base' if said['files'] else 'URL'}: {error}") from None
