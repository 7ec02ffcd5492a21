"""What a run of load is: phases, each a closed or an open loop over a mix, and how names are resolved. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal, get_args

from lbdns.duration import parse_duration
from lbdns.endpoint import Endpoint
from lbdns.toml_table import nearest
from lbdns_tools.load.mix import Mix

ResolveMode = Literal["request", "connection", "every", "webstone", "ttl", "once", "system"]
Spacing = Literal["even", "poisson"]

RESOLVE_MODES: Final[tuple[ResolveMode, ...]] = get_args(ResolveMode)
SPACINGS: Final[tuple[Spacing, ...]] = get_args(Spacing)
#: s; a client of WebStone looks its server up again after a time between half of this and all of it
WEBSTONE_LONGEST: Final = 5.0


@dataclass(frozen=True, slots=True)
class Resolve:
    """How often a client looks a name up, and whom it asks: ``server``, else the first name server of the system.

    ``request``: before each; ``connection``: before each connection; ``every``: ``seconds`` after the last time;
    ``webstone``: at random intervals; ``ttl``: when the records have run out; ``once``: each client at its beginning;
    ``system``: once, by the system's own resolver and hosts file.
    """

    mode: ResolveMode
    seconds: float = 0.0
    server: Endpoint | None = None

    def interval(self, chance: Random) -> float:
        """Seconds from one look-up to the next in the modes that go by time alone; infinite for ``once``."""
        match self.mode:
            case "every":
                return self.seconds
            case "webstone":
                longest = self.seconds or WEBSTONE_LONGEST
                return chance.uniform(longest / 2, longest)
            case "once" | "system":
                return math.inf
            case _:
                return 0.0

    def __str__(self) -> str:
        return f"{self.mode}:{self.seconds:g}s" if self.seconds else self.mode


def parse_resolve(text: str) -> Resolve:
    """``request``, ``connection``, ``every:5s``, ``webstone[:5s]``, ``ttl``, ``once`` or ``system``.

    Raises ValueError.
    """
    mode, colon, span = text.strip().partition(":")
    for known in RESOLVE_MODES:
        if mode == known:
            break
    else:
        raise ValueError(f"{mode!r} is no way to resolve{nearest(mode, RESOLVE_MODES)}")
    if known == "every" and not span:
        raise ValueError("every how many seconds? Write every:5s")
    if colon and known not in ("every", "webstone"):
        raise ValueError(f"{text!r}: a time can stand behind every and webstone only")
    return Resolve(known, parse_duration(span) if colon else 0.0)


@dataclass(frozen=True, slots=True)
class Closed:
    """``clients`` that each wait for a response, think, and ask again.

    Until ``seconds`` are over or ``requests`` are done by all of them together, whichever is first; 0 is no limit.
    A share that :func:`split` makes may have no clients at all.
    """

    clients: int
    seconds: float = 0.0
    requests: int = 0
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds and not self.requests and self.clients:
            raise ValueError("clients need an end: seconds or requests")

    @property
    def length_s(self) -> float:
        """Seconds from the beginning to the end of sending; infinite if only the number of requests ends it."""
        return self.seconds or (math.inf if self.clients else 0.0)


@dataclass(frozen=True, slots=True)
class Open:
    """Requests that come whether or not others have been answered: ``rates``, requests/s, each for ``step_s``.

    With ``ramp`` the rate goes in straight lines from each to the next, ``step_s`` a line, so there is one step fewer
    than there are rates. At most ``requests`` of them, 0 is no limit.
    """

    rates: tuple[float, ...]
    step_s: float
    spacing: Spacing = "even"
    ramp: bool = False
    requests: int = 0

    def __post_init__(self) -> None:
        if len(self.rates) < (2 if self.ramp else 1):
            raise ValueError("a ramp needs two rates" if self.ramp else "there is no rate")

    @property
    def segments(self) -> tuple[tuple[float, float], ...]:
        """The rate at the beginning and at the end of each step."""
        if self.ramp:
            return tuple(zip(self.rates, self.rates[1:], strict=False))
        return tuple((rate, rate) for rate in self.rates)

    @property
    def length_s(self) -> float:
        """Seconds from the beginning to the end of the last step."""
        return self.step_s * len(self.segments)

    @property
    def expected(self) -> float:
        """How many requests come: on average, if the spacing is by chance."""
        all_of_them = sum((first + last) / 2 * self.step_s for first, last in self.segments)
        return min(all_of_them, self.requests) if self.requests else all_of_them


@dataclass(frozen=True, slots=True)
class Phase:
    """A load that begins ``begin_s`` after the run does. Phases may overlap."""

    begin_s: float
    load: Closed | Open
    mix: Mix
    label: str = ""

    @property
    def end_s(self) -> float:
        return self.begin_s + self.load.length_s


@dataclass(frozen=True, slots=True)
class Run:
    """One point of a measurement, once.

    Requests whose intended start is earlier than ``warm_up_s`` after the run's beginning are sent and not counted:
    the warm-up is part of ``seconds``. ``max_connections`` are open at a time, over all processes; 0 is no limit.
    Chance depends on ``seed`` alone.
    """

    label: str
    phases: tuple[Phase, ...]
    resolve: Resolve
    keep_alive: bool
    timeout_s: float
    warm_up_s: float
    max_connections: int
    seed: int

    @property
    def seconds(self) -> float:
        """From the beginning to the end of the last phase's sending; infinite if a phase ends by requests only."""
        return max((phase.end_s for phase in self.phases), default=0.0)


def split(run: Run, processes: int) -> list[Run]:
    """The share of each process. All of them have the same phases in the same order, and the same seed.

    Clients, their requests and connections are divided. An open loop stays whole: ``arrivals`` deals its sequence out
    by the number of the process, so that what arrives doesn't depend on how many processes there are.
    """
    limits = shares(run.max_connections, processes)
    return [
        replace(
            run,
            phases=tuple(_share(phase, part, processes, place) for place, phase in enumerate(run.phases)),
            # A limit of 0 would be none: a process that has work can always open one connection
            max_connections=max(1, limits[part]) if run.max_connections else 0,
        )
        for part in range(processes)
    ]


def _share(phase: Phase, part: int, parts: int, place: int) -> Phase:
    load = phase.load
    if isinstance(load, Open):
        return phase
    # What doesn't divide evenly begins at another process in each phase: else the first would have most of it
    at = (part + place) % parts
    clients = shares(load.clients, parts)
    if not load.requests:
        return replace(phase, load=replace(load, clients=clients[at]))
    # As many requests a client everywhere, so that all processes are done at about the same time
    done = sum(clients[:at])
    requests = load.requests * (done + clients[at]) // load.clients - load.requests * done // load.clients
    return replace(phase, load=replace(load, clients=clients[at] if requests else 0, requests=requests))


def shares(total: int, parts: int) -> list[int]:
    """``total`` in ``parts`` that differ by at most one, the larger ones first."""
    each, more = divmod(total, parts)
    return [each + (part < more) for part in range(parts)]
