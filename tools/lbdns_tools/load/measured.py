"""What a process of the load generator has measured, and what all of them come to together. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lbdns_tools.load.plan import Run
from lbdns_tools.load.saturation import Strain, saturation
from lbdns_tools.load.tally import Tally, read_tally


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one process. Times are seconds of the run.

    ``ok_in_window`` ended well from the end of the warm-up to the end of sending, whenever they were started;
    ``last_ok`` and ``last_end`` is when the last request ended, well or at all.
    """

    tally: Tally
    ok_in_window: int
    last_ok: float
    last_end: float
    strain: Strain

    def state(self) -> dict[str, Any]:
        """Plain data: lists, strings and numbers under strings, and numbers under numbers."""
        return {
            "tally": self.tally.state(),
            "ok_in_window": self.ok_in_window,
            "last_ok": self.last_ok,
            "last_end": self.last_end,
            "strain": {**asdict(self.strain), "late_s": list(self.strain.late_s)},
        }


def read_measured(state: Mapping[str, Any]) -> Measured:
    """What ``Measured.state`` gave. Raises ValueError."""
    try:
        strain = Strain(**{**state["strain"], "late_s": tuple(state["strain"]["late_s"])})
        return Measured(read_tally(state["tally"]), state["ok_in_window"], state["last_ok"], state["last_end"], strain)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no measurement: {type(error).__name__} at {error}") from None


@dataclass(frozen=True, slots=True)
class Process:
    """What one process had to do: requests counted, and the share of one core it took for them."""

    number: int
    requests: int
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Result:
    """One point measured once. ``seconds`` are what counts are to be divided by; ``saturation`` says why the generator
    was the limit, "" if it was not; ``interrupted`` if somebody ended it early."""

    tally: Tally
    seconds: float
    saturation: str
    processes: tuple[Process, ...]
    interrupted: bool = False


def together(run: Run, parts: Sequence[Measured], stopped_at: float = math.inf) -> Result:
    """The result of all processes. ``stopped_at`` is the second of the run in which somebody ended it."""
    tally = Tally()
    for part in parts:
        tally.merge(part.tally)
    return Result(
        tally,
        measured_seconds(run, parts, tally.ok, stopped_at),
        saturation([part.strain for part in parts]),
        tuple(Process(n, part.tally.requests, part.strain.cpu_share) for n, part in enumerate(parts, 1)),
        stopped_at < math.inf,
    )


def measured_seconds(run: Run, parts: Sequence[Measured], ok: int, stopped_at: float = math.inf) -> float:
    """How long the requests that were counted would have taken at the rate at which responses came.

    All requests that start in time count, and those are fewer or more than end in that time. Where a server can't
    keep up, the last of them end long after the last start, and one that hangs would stretch the time beyond what it
    stands for. So the rate is that of responses between the end of the warm-up and the end of sending. Where requests
    end a run, not time, it is simply the time until the last response.
    """
    last_ok = max((part.last_ok for part in parts), default=0.0)
    last_end = max((part.last_end for part in parts), default=0.0)
    end = min(run.seconds, stopped_at)
    by_requests = any(phase.load.requests for phase in run.phases)
    if math.isinf(end) or (by_requests and last_end < end):
        return max(0.0, (last_ok or last_end) - run.warm_up_s)
    window = max(0.0, end - run.warm_up_s)
    in_window = sum(part.ok_in_window for part in parts)
    until_last = max(window, last_ok - run.warm_up_s)
    return min(window * ok / in_window, until_last) if in_window and ok else until_last
