"""The output of a calibration: a TOML table for a configuration, text, and JSON."""

from __future__ import annotations

import math
from typing import Any

from lbdns_tools.calibrate.calibration import Calibration
from lbdns_tools.calibrate.metric_weights import TOTAL, WeighedMetric, percent
from lbdns_tools.calibrate.toml_writer import to_toml


def as_toml(found: Calibration, name: str, how: str) -> str:
    """Return ``[score.NAME]`` with the figures behind each term as comments; ``how`` names the farm."""
    base = found.compared[0]
    lines = [
        f"# Calibrated on {how}.",
        f"# Method {found.method}, by {found.measure}, {found.rounds} rounds; weights sum to {TOTAL:g}.",
        f"# round robin: {base.throughput_per_s:.1f} responses/s, {base.mean_ms:.1f} ms mean response time",
    ]
    lines += [f"# {c.name}: {_figures(c.throughput_per_s, c.mean_ms, c.gain, c.error)}" for c in found.compared[1:]]
    # to_toml knows how to write a term: it writes a table, and the term is cut out of it
    lines += ["", to_toml({name: {}}).strip().replace("[", "[score.", 1)]
    for w in found.weighed:
        lines.append(f"# {w.metric} alone: {_figures(w.throughput_per_s, w.mean_ms, w.gain, w.error)}{_why_not(w)}")
        if w.metric in found.terms:
            term = found.terms[w.metric]
            values: dict[str, Any] = {"weight": term.weight, "limit": term.limit}
            lines.append(to_toml({"": {w.metric: values | ({"cap": True} if term.cap else {})}}).splitlines()[-1])
    return "\n".join(lines) + "\n"


def as_text(found: Calibration) -> str:
    """Return the figures as a table for a person, best last."""
    rows = [(w.metric + " alone", w.throughput_per_s, w.mean_ms, w.gain, w.error, f"{w.weight:.2f}")
            for w in reversed(found.weighed)]  # fmt: skip
    rows += [(c.name, c.throughput_per_s, c.mean_ms, c.gain, c.error, "") for c in found.compared]
    width = max(len(row[0]) for row in rows)
    head = f"{'':{width}}  {'responses/s':>11}  {'mean ms':>9}  {'against round robin':>28}  weight"
    lines = []
    for name, throughput, mean, gain, error, weight in rows:
        against = percent(gain) + _range(gain, error)
        lines.append(f"{name:{width}}  {throughput:11.1f}  {mean:9.1f}  {against:>28}  {weight:>6}".rstrip())
    return "\n".join([head, *lines])


def as_json(found: Calibration, name: str) -> dict[str, Any]:
    """Return the figures for JSON. Gains are ratios here: 0.1 is a tenth more than round robin."""
    return {
        "score": name,
        "method": found.method,
        "measure": found.measure,
        "rounds": found.rounds,
        "metrics": [
            {
                "metric": w.metric,
                "throughput_per_s": w.throughput_per_s,
                "mean_ms": w.mean_ms,
                "gain": math.expm1(w.gain),
                "error": w.error,
                "limit": w.limit,
                "weight": w.weight,
            }
            for w in found.weighed
        ],
        "terms": {
            metric: {"weight": t.weight, "limit": t.limit, "better": t.better, "cap": t.cap}
            for metric, t in found.terms.items()
        },
        "compared": [
            {
                "name": c.name,
                "throughput_per_s": c.throughput_per_s,
                "mean_ms": c.mean_ms,
                "gain": math.expm1(c.gain),
                "error": c.error,
            }
            for c in found.compared
        ],
    }


def _figures(throughput: float, mean: float, gain: float, error: float) -> str:
    return f"{throughput:.1f} responses/s, {mean:.1f} ms, {percent(gain)}{_range(gain, error)}"


def _range(gain: float, error: float) -> str:
    return f" ({percent(gain - error)[:-2]} to {percent(gain + error)[:-2]})" if error else ""


def _why_not(w: WeighedMetric) -> str:
    if w.weight > 0:
        return ""
    return ": left out, it never changed" if not w.limit else ": left out"
