"""Synthetic outcomes of studies, for tests of the code that evaluates outcomes."""

from __future__ import annotations

from dataclasses import replace

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.measuring.cgroup_sampler import MachineSample
from tests.tools.load.made_up_rows import row

FARM = LabFarm((WebHost("bilbo", 0.11), WebHost("frodo", 0.07)), proxies=("haproxy",), resolvers=1)


def outcome(
    selection: str = "best",
    clients: int = 20,
    *,
    workload: str = "html",
    requests: int = 500,
    shares: dict[str, float] | None = None,
    samples: tuple[MachineSample, ...] = (),
    answers: dict[str, int] | None = None,
    **more: str | float,
) -> MeasuredOutcome:
    of = row(clients, requests)
    shares = {"bilbo": 0.25, "frodo": 0.75} if shares is None else shares
    case = MeasuredCase(selection, workload, "webstone", "http://best.hobbit", "unequal", more)
    return MeasuredOutcome(case, replace(of, figures=replace(of.figures, shares=shares)), samples, answers or {})
