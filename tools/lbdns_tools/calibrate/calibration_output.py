"""Formats a calibration's result as a TOML table for a configuration file, as a text table, and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from lbdns_tools.calibrate.calibration import TOTAL, Calibration, TrialFigures, WeighedMetric, percent
from lbdns_tools.calibrate.toml_writer import toml_value


def as_toml(found: Calibration, name: str, how: str) -> str:
    """Return a ``[score.NAME]`` table, with each term's measurements as comments; ``how`` describes the farm."""
    base = found.compared[0]
    lines = [
        f"# Calibrated on {how}.",
        f"# Method: {found.method}; optimised for: {found.measure}; rounds: {found.rounds}; sum of weights: {TOTAL:g}.",
        f"# round robin: {base.throughput_per_s:.1f} responses/s, {base.mean_ms:.1f} ms mean response time",
        *(f"# {c.name}: {_figures(c)}" for c in found.compared[1:]),
        f"\n[score.{name}]",
    ]
    for w in found.weighed:
        lines.append(f"# {w.name} alone: {_figures(w)}{_why_not(w)}")
        if term := found.terms.get(w.name):
            values = {"weight": term.weight, "limit": term.limit} | ({"cap": True} if term.cap else {})
            lines.append(f"{w.name} = {toml_value(values)}")
    return "\n".join(lines) + "\n"


def as_text(found: Calibration) -> str:
    """Return a text table that lists the metrics in order of increasing weight, followed by the compared policies."""
    rows: list[tuple[str, TrialFigures, str]]
    rows = [(f"{w.name} alone", w, f"{w.weight:.2f}") for w in reversed(found.weighed)]
    rows += [(c.name, c, "") for c in found.compared]
    width = max(len(name) for name, *_ in rows)
    lines = [f"{'':{width}}  {'responses/s':>11}  {'mean ms':>9}  {'against round robin':>28}  weight"]
    for name, of, weight in rows:
        against = percent(of.gain) + _range(of)
        lines.append(
            f"{name:{width}}  {of.throughput_per_s:11.1f}  {of.mean_ms:9.1f}  {against:>28}  {weight:>6}".rstrip()
        )
    return "\n".join(lines)


def as_json(found: Calibration, name: str) -> dict[str, Any]:
    """Return the calibration's result as a dict for JSON; a gain of 0.1 means 10 % better than round robin."""
    compared = [asdict(c) | {"gain": math.expm1(c.gain)} for c in found.compared]
    metrics = [asdict(w) | {"gain": math.expm1(w.gain)} for w in found.weighed]
    return {
        "score": name,
        "method": found.method,
        "measure": found.measure,
        "rounds": found.rounds,
        "metrics": [{"metric": figures.pop("name"), **figures} for figures in metrics],
        "terms": {metric: asdict(term) for metric, term in found.terms.items()},
        "compared": compared,
    }


def _figures(of: TrialFigures) -> str:
    return f"{of.throughput_per_s:.1f} responses/s, {of.mean_ms:.1f} ms, {percent(of.gain)}{_range(of)}"


def _range(of: TrialFigures) -> str:
    return f" ({percent(of.gain - of.error)[:-2]} to {percent(of.gain + of.error)[:-2]})" if of.error else ""


def _why_not(w: WeighedMetric) -> str:
    if w.weight > 0:
        return ""
    return ": omitted" if w.limit else ": omitted because its value was always 0"
