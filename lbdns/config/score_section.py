"""Read ``[score.NAME]``, the user-defined scores. Each score is computed from metrics with weights and limits."""

from __future__ import annotations

from collections.abc import Mapping

from lbdns.config.toml_reader import TomlPlace, TomlTable
from lbdns.scores import SCORES
from lbdns.scores.derived_metrics import score_metrics
from lbdns.scores.score import Term
from lbdns.text.suggestions import nearest


def read_scores(root: TomlTable) -> Mapping[str, Mapping[str, Term]]:
    """Return the terms of each configured score, keyed by name. Errors are added to ``root.findings``."""
    tables = root.table("score", TomlPlace("score"))
    scores: dict[str, Mapping[str, Term]] = {}
    for name in tables.values if tables else ():
        place = TomlPlace(f"score.{name}")
        table = tables.table(name, place) if tables else None
        if table is None:
            continue
        if name in SCORES:
            root.findings.add(place, "is the name of a built-in score; choose another name")
        scores[name] = {metric: _term(table, metric) for metric in table.values}
        if not any(term.weight > 0 for term in scores[name].values()):
            root.findings.add(place, "has no metric with a weight above 0, so every member would score 0")
    return scores


def _term(table: TomlTable, metric: str) -> Term:
    """Read ``metric = { weight = W, limit = L }``. If the metric is not in the catalogue, ``better`` is required."""
    metrics = score_metrics()
    known = metrics.get(metric)
    term = table.table(metric)
    if term is None:
        return Term(0.0, 1.0, "low")
    better = term.string("better", (known.better if known else None) or "")
    if better not in ("low", "high"):
        near = "" if known else nearest(metric, metrics)
        table.wrong(metric, f'better must be "low" or "high"{near}')
    result = Term(
        weight=term.number("weight", 0.0, 0.0, 1e9),
        limit=term.number("limit", 1.0, 1e-9, 1e15),
        better="low" if better == "low" else "high",
        cap=term.flag("cap", False),
    )
    for key in ("weight", "limit"):
        if key not in term.values:
            table.wrong(metric, f"{key} is missing; write {metric} = {{ weight = 20, limit = 100 }}")
    term.end()
    return result
