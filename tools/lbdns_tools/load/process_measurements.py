"""Measurements of the load generator's processes, and the combined result of a run. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lbdns_tools.load.generator_saturation import ProcessStrain, saturation
from lbdns_tools.load.load_plan import LoadRun
from lbdns_tools.load.request_tally import RequestTally, read_tally


@dataclass(frozen=True, slots=True)
class ProcessMeasurement:
    """Measurement of one process. Times are seconds of the run.

    ``ok_in_window`` requests succeeded between the end of the warm-up and the end of sending, whenever they started.
    ``last_ok`` is when the last successful request ended, ``last_end`` when the last request of any kind ended.
    """

    tally: RequestTally
    ok_in_window: int
    last_ok: float
    last_end: float
    strain: ProcessStrain

    def state(self) -> dict[str, Any]:
        """Return plain data for msgpack, which ``read_measurement`` reads."""
        return {
            "tally": self.tally.state(),
            "ok_in_window": self.ok_in_window,
            "last_ok": self.last_ok,
            "last_end": self.last_end,
            "strain": {**asdict(self.strain), "late_s": list(self.strain.late_s)},
        }


def read_measurement(state: Mapping[str, Any]) -> ProcessMeasurement:
    """Return the measurement that ``ProcessMeasurement.state`` wrote. Raises ValueError if it is invalid."""
    try:
        strain = ProcessStrain(**{**state["strain"], "late_s": tuple(state["strain"]["late_s"])})
        return ProcessMeasurement(
            read_tally(state["tally"]), state["ok_in_window"], state["last_ok"], state["last_end"], strain
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a valid measurement: {type(error).__name__} at {error}") from None


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Use of one process: the requests it counted, and the share of one core that they took."""

    number: int
    requests: int
    cpu_share: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of one run. Divide counts by ``seconds`` to get rates. ``saturation`` says why the load generator was the
    limit, "" if it was not; ``interrupted`` if Ctrl-C ended the run early."""

    tally: RequestTally
    seconds: float
    saturation: str
    processes: tuple[ProcessUse, ...]
    interrupted: bool = False


def combine(run: LoadRun, parts: Sequence[ProcessMeasurement], stopped_at: float = math.inf) -> RunResult:
    """Return the result of all processes. ``stopped_at`` is the second of the run at which Ctrl-C ended it."""
    tally = RequestTally()
    for part in parts:
        tally.merge(part.tally)
    return RunResult(
        tally,
        measured_seconds(run, parts, tally.ok, stopped_at),
        saturation([part.strain for part in parts]),
        tuple(ProcessUse(n, part.tally.requests, part.strain.cpu_share) for n, part in enumerate(parts, 1)),
        stopped_at < math.inf,
    )


def measured_seconds(run: LoadRun, parts: Sequence[ProcessMeasurement], ok: int, stopped_at: float = math.inf) -> float:
    """Return the seconds that the counted requests would have taken at the rate at which responses arrived.

    All requests that start in time count, even if they end later. If a server cannot keep up, the last requests end
    long after the last start, and a single hanging request would stretch the time. Therefore the rate is measured
    between the end of the warm-up and the end of sending. If a number of requests ends the run, the result is the time
    until the last response.
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
