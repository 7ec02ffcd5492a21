"""Outcomes of a made-up study, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace

from lbdns_tools.lab.case import Case, Outcome, Sample
from lbdns_tools.lab.farm import Farm, WebHost
from tests.tools.load.rows import row

FARM = Farm((WebHost("bilbo", 0.11), WebHost("frodo", 0.07)), proxies=("haproxy",), resolvers=1)


def outcome(
    selection: str = "best",
    clients: int = 20,
    *,
    workload: str = "html",
    requests: int = 500,
    shares: dict[str, float] | None = None,
    samples: tuple[Sample, ...] = (),
    answers: dict[str, int] | None = None,
    **more: str | float,
) -> Outcome:
    of = row(clients, requests)
    shares = {"bilbo": 0.25, "frodo": 0.75} if shares is None else shares
    case = Case(selection, workload, "webstone", "http://best.hobbit", "unequal", more)
    return Outcome(case, replace(of, figures=replace(of.figures, shares=shares)), samples, answers or {})
