"""What is measured: options as they were said -> points and their runs. Reads files, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lbdns.errors import ConfigError
from lbdns_tools.load.mix import Mix, file_set, one_url, read_urls
from lbdns_tools.load.output import Point
from lbdns_tools.load.phases_file import read_phases
from lbdns_tools.load.plan import Closed, Open, Phase, Resolve, Run, Spacing
from lbdns_tools.load.trace import read_trace

CLIENTS: Final = 20  # where neither clients nor a rate are said: WebStone's fewest
SECONDS: Final = 10.0  # where neither seconds nor requests are said
LOADS: Final = ("clients", "rate", "ramp", "trace", "phases")
TARGETS: Final = ("url", "urls", "files")
SEARCHES: Final = ("rate", "connections", "clients")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same at all points of a study."""

    resolve: Resolve
    keep_alive: bool = False
    timeout_s: float = 10.0
    warm_up_s: float = 0.0
    max_connections: int = 0
    seed: int = 1

    def run(self, label: str, *phases: Phase) -> Run:
        """The run of these phases, which count from the end of the warm-up."""
        return Run(
            label,
            phases,
            self.resolve,
            self.keep_alive,
            self.timeout_s,
            self.warm_up_s,
            self.max_connections,
            self.seed,
        )

    def point(self, label: str, clients: int | None = None, rate: float | None = None) -> Point:
        return Point(label, clients, rate, str(self.resolve), self.keep_alive)


@dataclass(frozen=True, slots=True)
class Planned:
    """A point and the run that measures it."""

    point: Point
    run: Run

    def again(self, repetition: int) -> Run:
        """The run of a repetition, from 1: the same with other chance."""
        label = self.run.label if repetition == 1 else f"{self.run.label}, run {repetition}"
        return replace(self.run, label=label, seed=self.run.seed + repetition - 1)


def closed(settings: Settings, label: str, mix: Mix, load: Closed) -> Planned:
    """Clients that go on through the warm-up: ``load`` counts from its end."""
    if load.seconds:
        load = replace(load, seconds=settings.warm_up_s + load.seconds)
    run = settings.run(f"{load.clients} clients", Phase(0.0, load, mix, label))
    return Planned(settings.point(label, clients=load.clients), run)


def opened(settings: Settings, label: str, mix: Mix, load: Open) -> Planned:
    """A rate, a ramp or a trace; the warm-up before it has the rate with which it begins."""
    rate = load.rates[0] if len(load.rates) == 1 else None
    phases = [Phase(settings.warm_up_s, load, mix, label)]
    if settings.warm_up_s:
        warm_up = Open(load.rates[:1], settings.warm_up_s, load.spacing)
        phases.append(Phase(0.0, warm_up, mix, f"{label} (warm-up)"))
    return Planned(settings.point(label, rate=rate), settings.run(label if rate is None else f"{rate:g}/s", *phases))


def make_study(said: Mapping[str, Any]) -> tuple[Planned, ...]:
    """The points that the options of a command line ask for. Raises ConfigError."""
    settings = settings_of(said)
    if said["phases"] is not None:
        mix = mix_of(said) if any(said[name] for name in TARGETS) else None
        label = said["label"] or said["phases"].name
        return (Planned(settings.point(label), settings.run(label, *read_phases(said["phases"], mix))),)
    mix = mix_of(said)
    label = said["label"] or mix.name
    if not any(said[name] for name in ("rate", "ramp", "trace")):
        seconds = said["seconds"] or (0.0 if said["requests"] else SECONDS)
        return tuple(
            closed(settings, label, mix, Closed(count, seconds, said["requests"] or 0, said["think"] or 0.0))
            for count in said["clients"] or (CLIENTS,)
        )
    return tuple(opened(settings, label, mix, load) for load in _open_loads(said))


def _open_loads(said: Mapping[str, Any]) -> tuple[Open, ...]:
    spacing, requests = spacing_of(said), said["requests"] or 0
    if said["rate"]:
        return tuple(steady(rate, said["seconds"], requests, spacing) for rate in said["rate"])
    if said["ramp"]:
        rates = said["ramp"]
        step_s = (said["seconds"] or SECONDS) / (len(rates) - 1)
        return (Open(rates, step_s, spacing, ramp=True, requests=requests),)
    span = None if said["max_rate"] is None else (said["min_rate"] or 0.0, said["max_rate"])
    try:
        rates = read_trace(said["trace"], said["trace_column"] or "", span)
    except ConfigError as error:
        raise ConfigError(*(f"--trace: {finding}" for finding in error.findings)) from None
    return (Open(rates, said["seconds"] / len(rates), spacing, requests=requests),)


def steady(rate: float, seconds: float | None, requests: int, spacing: Spacing) -> Open:
    """One rate until the seconds are over or the requests are sent, whichever is said, or comes first."""
    seconds = seconds or (requests / rate if requests else SECONDS)
    return Open((rate,), seconds, spacing, requests=requests)


def spacing_of(said: Mapping[str, Any]) -> Spacing:
    return "poisson" if said["spacing"] == "poisson" else "even"


def settings_of(said: Mapping[str, Any]) -> Settings:
    """Without a resolver of ours, nor a word about how often, names are left to the system, as in /etc/hosts."""
    server = said["resolver"]
    resolve: Resolve = said["resolve"] or Resolve("connection" if server else "system")
    if server is not None and resolve.mode == "system":
        raise ConfigError("--resolve system asks the system, and no --resolver; take another way, such as once")
    return Settings(
        replace(resolve, server=server),
        said["keep_alive"],
        said["timeout"],
        said["warm_up"] or 0.0,
        said["max_connections"] or 0,
        said["seed"],
    )


def mix_of(said: Mapping[str, Any]) -> Mix:
    """What is asked for: one URL, a file of them, or WebStone's files. Raises ConfigError."""
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
