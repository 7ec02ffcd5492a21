"""Classes for a fault, the limits on its cost, and the outcome of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from lbdns_tools.faults.fault_farm import FarmPlan

if TYPE_CHECKING:
    from lbdns_tools.faults.fault_bed import FaultBed

RATE: Final = 500.0  # queries/s of the measuring load
Verdict = Literal["held", "FAILED", "skipped"]


def queries(seconds: float, share: float = 1.0) -> int:
    """Return the number of queries that the measuring load sends to a fraction ``share`` of the workers in
    ``seconds``."""
    return round(RATE * seconds * share)


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum cost of a fault.

    ``lost`` and ``lost_after_retry`` are numbers of queries, and ``recover_s`` is in seconds. ``growth_mb`` is the
    maximum growth of the server's memory from the beginning to the end. ``log_lines`` is the maximum number of log
    lines. If ``has_clean_log`` is set, the log must not contain a traceback.
    """

    lost: int = 0
    lost_after_retry: int = 0
    wrong: int = 0
    recover_s: float = 5.0
    growth_mb: float = 30.0
    log_lines: int = 60
    has_clean_log: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the table of faults.

    ``needs`` lists requirements from ``requirements.py``. If a requirement is not met, the fault is skipped. With
    CI=true in the environment, it fails instead.

    ``run`` injects the fault, removes it, and waits for the recovery. If ``quick`` is set, the fault is part of the
    quick run.
    """

    name: str  # FAMILY.FAULT
    done: str
    holds: str
    run: Callable[[FaultBed], None]
    limits: Limits = Limits()
    farm: FarmPlan = FarmPlan()
    quick: bool = False
    needs: tuple[str, ...] = ()


@dataclass(slots=True)
class FaultOutcome:
    """The outcome of one run of a fault.

    ``recover_s`` is None if no recovery was necessary or the farm did not recover.
    """

    name: str
    done: str
    holds: str
    verdict: Verdict = "held"
    problems: list[str] = field(default_factory=list)  # expectations that did not hold; for "skipped", the reason
    sent: int = 0
    lost: int = 0
    lost_after_retry: int = 0
    wrong: int = 0
    p99_ms: float = 0.0
    recover_s: float | None = None
    memory_mb: tuple[float, float, float] = (0.0, 0.0, 0.0)  # before, at most, after
    log_lines: int = 0
    seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)
