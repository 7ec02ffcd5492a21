"""Score ``thesis``: weights and limits from the 1999 diploma thesis that led to lbdns. The weights add up to 99.97."""

from __future__ import annotations

from typing import Final

from lbdns.scores.score import Score, Term

THESIS: Final = Score(
    {
        "run_queue": Term(19.6, 30.0, "low"),
        "cpu_idle": Term(19.58, 100.0, "high"),
        "gateway_ping": Term(17.24, 400.0, "low"),
        "requests_per_s": Term(19.64, 10.0, "high"),
        "scan_rate": Term(4.23, 200.0, "low"),
        "idle_workers": Term(19.68, 20.0, "high"),
    }
)
