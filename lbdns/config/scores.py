"""``[score.NAME]``: scores of one's own, by metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lbdns.metrics import CATALOGUE, Better
from lbdns.toml_table import Place, Table, nearest


@dataclass(frozen=True, slots=True)
class Term:
    """One metric's part of a score: ``weight`` at ``limit`` (better high) or at 0 (better low).

    Better low: weight * (limit - value) / limit, and 0 above the limit. Better high:
    weight * value / limit, without an upper end unless ``cap``.
    """

    weight: float
    limit: float
    better: Better
    cap: bool = False


def read_scores(root: Table) -> Mapping[str, Mapping[str, Term]]:
    tables = root.table("score", Place("score"))
    scores: dict[str, Mapping[str, Term]] = {}
    for name in tables.values if tables else ():
        place = Place(f"score.{name}")
        table = tables.table(name, place) if tables else None
        if table is None:
            continue
        if name == "thesis":
            root.findings.add(place, "this score is built in; give yours another name")
        scores[name] = {metric: _term(table, metric) for metric in table.values}
        if not any(term.weight > 0 for term in scores[name].values()):
            root.findings.add(place, "no metric has a weight; every member would score 0")
    return scores


def _term(table: Table, metric: str) -> Term:
    """``metric = { weight = W, limit = L }``, with ``better`` for a metric that is not in the catalogue."""
    known = CATALOGUE.get(metric)
    term = table.table(metric)
    if term is None:
        return Term(0.0, 1.0, "low")
    better = term.string("better", (known.better if known else None) or "")
    if better not in ("low", "high"):
        near = "" if known else nearest(metric, CATALOGUE)
        table.wrong(metric, f'say which way is better: better = "low" or "high"{near}')
    result = Term(
        weight=term.number("weight", 0.0, 0.0, 1e9),
        limit=term.number("limit", 1.0, 1e-9, 1e15),
        better="low" if better == "low" else "high",
        cap=term.flag("cap", False),
    )
    for key in ("weight", "limit"):
        if key not in term.values:
            table.wrong(metric, f"{key} is missing: {metric} = {{ weight = 20, limit = 100 }}")
    term.end()
    return result
