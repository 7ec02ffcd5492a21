"""Score ``headroom``: how much of a host's capacity is left, from 0 (full) to 100 (idle). The weights are those of
``thesis``."""

from __future__ import annotations

from typing import Final

from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS

IDLE: Final = 100.0  # the score of an idle host
MOST_RUNNABLE: Final = 4.0  # tasks per core; a longer run queue leaves nothing
_WEIGHTS: Final = {metric: term.weight * IDLE / THESIS.total for metric, term in THESIS.terms.items()}

HEADROOM: Final = Score(
    {
        "run_queue_per_core": Term(_WEIGHTS["run_queue"], MOST_RUNNABLE, "low"),
        "cpu_idle": Term(_WEIGHTS["cpu_idle"], 100.0, "high", cap=True),
        "gateway_ping": Term(_WEIGHTS["gateway_ping"], 400.0, "low"),
        "capacity_used": Term(_WEIGHTS["requests_per_s"], 100.0, "low"),
        "scan_rate": Term(_WEIGHTS["scan_rate"], 200.0, "low"),
        "idle_worker_share": Term(_WEIGHTS["idle_workers"], 100.0, "high", cap=True),
    }
)
