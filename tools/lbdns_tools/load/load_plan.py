"""The plan of a load run: phases with closed or open loops, due times, and the resolve rule. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Final, Literal, get_args

from lbdns.text.suggestions import nearest
from lbdns.text.times import parse_duration
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.request_mix import RequestMix

ResolveMode = Literal["request", "connection", "every", "webstone", "1999", "ttl", "once", "system"]
Spacing = Literal["even", "poisson"]

RESOLVE_MODES: Final[tuple[ResolveMode, ...]] = get_args(ResolveMode)
SPACINGS: Final[tuple[Spacing, ...]] = get_args(Spacing)
#: s; a WebStone client looks up its server again after a random time between half of this and the whole
WEBSTONE_LONGEST: Final = 5.0
_ROUNDING: Final = 1e-9  # of a request: 0.1/s for 30 s are 3 requests, despite rounding errors


@dataclass(frozen=True, slots=True)
class ResolveRule:
    """A rule that defines when clients look up names, and which DNS server they query.

    If ``server`` is None, clients query the first name server in resolv.conf. In the modes ``request`` and
    ``connection``, clients look up a name before each request or connection. In mode ``every``, clients repeat a lookup
    after ``seconds`` seconds. In mode ``webstone``, clients repeat a lookup at random intervals. In mode ``1999``, each
    client repeats its lookups at an interval that it draws once. In mode ``ttl``, clients repeat a lookup after the
    records have expired. In mode ``once``, clients look up each name only once. In mode ``system``, the operating
    system resolves each name once for all clients.

    If ``first`` is not empty, a client's first lookup of each name queries the name ``first`` instead.
    """

    mode: ResolveMode
    seconds: float = 0.0
    server: Endpoint | None = None
    first: str = ""

    def interval(self, chance: Random) -> float:
        """Return the time in seconds until the next lookup: inf for ``once`` and ``system``, 0 for modes without an
        interval."""
        if self.mode == "webstone":
            longest = self.seconds or WEBSTONE_LONGEST
            return chance.uniform(longest / 2, longest)
        if self.mode == "1999":
            # The program of 1999 drew from the whole range, and then raised short intervals to the minimum
            return max(self.seconds / 2, chance.uniform(min(1.0, self.seconds), self.seconds))
        if self.mode == "every":
            return self.seconds
        return math.inf if self.mode in ("once", "system") else 0.0

    def __str__(self) -> str:
        return f"{self.mode}:{self.seconds:g}s" if self.seconds else self.mode


def parse_resolve_rule(text: str) -> ResolveRule:
    """Parse a resolve rule such as ``ttl``, ``every:5s`` or ``webstone:5s``. Raises ValueError."""
    mode, colon, span = text.strip().partition(":")
    known = next((known for known in RESOLVE_MODES if known == mode), None)
    if known is None:
        raise ValueError(f"{mode!r} is not a valid resolve mode{nearest(mode, RESOLVE_MODES)}")
    if known == "every" and not span:
        raise ValueError("the mode 'every' requires a time, for example every:5s")
    if colon and known not in ("every", "webstone", "1999"):
        raise ValueError(f"{text!r}: only the modes 'every', 'webstone' and '1999' accept a time")
    return ResolveRule(known, parse_duration(span) if colon else 0.0)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A closed loop of ``clients`` clients, each of which waits for a response, pauses, and sends the next request.

    The loop ends after ``seconds`` or after a total of ``requests`` requests from all clients, whichever comes first. A
    limit of 0 means no limit. If :func:`split_run` divides a loop among processes, a process's share may contain no
    clients.
    """

    clients: int
    seconds: float = 0.0
    requests: int = 0
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds and not self.requests and self.clients:
            raise ValueError("a closed loop requires a limit: ``seconds`` or ``requests``")

    @property
    def length_s(self) -> float:
        """The time in seconds for which the loop sends requests, or infinity if only ``requests`` limits the loop."""
        return self.seconds or (math.inf if self.clients else 0.0)


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """An open loop, which sends requests at given rates regardless of responses.

    The loop sends requests at each of ``rates`` (in requests/s) for ``step_s`` seconds. With ``ramp``, the rate instead
    changes linearly between two consecutive ``rates`` during each step. The loop sends at most ``requests`` requests (0
    means no limit).
    """

    rates: tuple[float, ...]
    step_s: float
    spacing: Spacing = "even"
    ramp: bool = False
    requests: int = 0

    def __post_init__(self) -> None:
        if len(self.rates) < (2 if self.ramp else 1):
            raise ValueError("a ramp requires at least two rates" if self.ramp else "a rate is required")

    @property
    def segments(self) -> tuple[tuple[float, float], ...]:
        """The rates at the start and end of each step, in requests/s."""
        if self.ramp:
            return tuple(zip(self.rates, self.rates[1:], strict=False))
        return tuple((rate, rate) for rate in self.rates)

    @property
    def length_s(self) -> float:
        """The time in seconds from the start of the first step to the end of the last step."""
        return self.step_s * len(self.segments)


def arrivals(load: OpenLoop, chance: Random, part: int = 0, parts: int = 1) -> Iterator[float]:
    """Yield the due time of every ``parts``-th request, beginning with number ``part`` (the first request is number 0).

    The times are in ascending order, in seconds since the start of the phase.

    If all parts use the same random numbers, together they yield each due time exactly once. If requests are evenly
    spaced, the first request is due immediately. For example, evenly spaced requests at 2 requests/s are due after 0.0,
    0.5 and 1.0 s. The intervals between requests change with the rate.
    """
    # Positions at a rate of 1/s, which the rates then stretch
    whole = map(float, count()) if load.spacing == "even" else _poisson(chance)
    positions = islice(whole, part, load.requests or None, parts)
    step_s = load.step_s
    before = 0.0  # requests in earlier steps
    position = next(positions, math.inf)
    for number, (first, last) in enumerate(load.segments):
        begin, more = number * step_s, (first + last) / 2 * step_s
        slope = 2 * (last - first) / step_s if step_s else 0.0
        end = before + more - _ROUNDING
        while position < end:
            inside = max(0.0, position - before)
            # The root of first*t + slope/4*t^2 = inside, in the form that also holds for slope 0
            root = first + math.sqrt(max(0.0, first * first + slope * inside))
            yield begin + (min(2 * inside / root, step_s) if root else 0.0)
            position = next(positions, math.inf)
        before += more


def _poisson(chance: Random) -> Iterator[float]:
    """Yield the event times of a Poisson process with rate 1."""
    position = 0.0
    while True:
        position += chance.expovariate(1.0)
        yield position


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """A load that begins ``begin_s`` seconds after the start of the run. Phases may overlap."""

    begin_s: float
    load: ClosedLoop | OpenLoop
    mix: RequestMix
    label: str = ""


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One run of the load generator. A LoadRun without phases contains the settings that several runs share.

    Requests that are due in the first ``warm_up_s`` seconds are sent but not counted. ``seconds`` includes the warm-up.
    Across all processes, at most ``max_connections`` connections are open at a time (0 means no limit). Two runs with
    the same ``seed`` and ``parts`` use the same random numbers, except in DNS queries. ``parts`` is the number of
    processes. ``part`` is the index of the process that executes this part of the run. With TLS, the certificates in
    ``ca_file`` are trusted instead of the system's; with ``insecure``, servers' certificates are not verified.
    """

    resolve: ResolveRule
    keep_alive: bool = False
    timeout_s: float = 10.0
    warm_up_s: float = 0.0
    max_connections: int = 0
    seed: int = 1
    label: str = ""
    phases: tuple[LoadPhase, ...] = ()
    part: int = 0
    parts: int = 1
    ca_file: Path | None = None
    insecure: bool = False

    @property
    def seconds(self) -> float:
        """The time in seconds until the last phase stops sending requests, or infinity if only ``requests`` limits a
        phase."""
        return max((phase.begin_s + phase.load.length_s for phase in self.phases), default=0.0)


def split_run(run: LoadRun, processes: int) -> list[LoadRun]:
    """Return each process's share of a run. Every share has the run's seed and all its phases in the same order.

    The clients and requests of closed loops are divided among the processes, and so is ``max_connections``. Open loops
    are not divided, because each process sends its own part of the sequence from ``arrivals``. The arrival times
    therefore do not depend on the number of processes.
    """
    limits = shares(run.max_connections, processes)
    return [
        replace(
            run,
            phases=tuple(_share(phase, part, processes, place) for place, phase in enumerate(run.phases)),
            # At least 1, since 0 means no limit
            max_connections=max(1, limits[part]) if run.max_connections else 0,
            part=part,
            parts=processes,
        )
        for part in range(processes)
    ]


def _share(phase: LoadPhase, part: int, parts: int, place: int) -> LoadPhase:
    load = phase.load
    if isinstance(load, OpenLoop):
        return phase
    # The remainder of the division goes to a different process in each phase; otherwise the first would get most of it
    at = (part + place) % parts
    clients = shares(load.clients, parts)
    if not load.requests:
        return replace(phase, load=replace(load, clients=clients[at]))
    # Every client sends the same number of requests, so that all processes end at about the same time
    done = sum(clients[:at])
    requests = load.requests * (done + clients[at]) // load.clients - load.requests * done // load.clients
    return replace(phase, load=replace(load, clients=clients[at] if requests else 0, requests=requests))


def shares(total: int, parts: int) -> list[int]:
    """Return ``parts`` whole numbers, largest first, that add up to ``total`` and differ by at most one."""
    each, more = divmod(total, parts)
    return [each + (part < more) for part in range(parts)]
