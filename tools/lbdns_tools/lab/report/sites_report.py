"""The report of the study ``sites``: response times, and the share of the requests that the client's own site served,
for each way to choose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.measuring.site_measurement import ALL, SITE
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, mean_of_known, means, part
from lbdns_tools.lab.report.report_page import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import saturated

EVEN, OVERLOADED = "even load", "one site overloaded"  # the parts of the study
COLUMNS: Final = ("", "offered /s", "successful /s", "mean ms", "p95 ms", "p99 ms", "errors %", "CPU of the hosts",
                  "served at home %")  # fmt: skip


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> list[ReportSection]:
    return [_section(name, part(outcomes, name), farm) for name in (EVEN, OVERLOADED) if part(outcomes, name)]


def _section(name: str, outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    rows: list[list[ReportCell]] = []
    for selection, of in by_selection(outcomes).items():
        whole = at(of, ALL)
        rows.append([
            selection, mean_of_known(outcome.row.point.rate_per_s for outcome in whole),
            *means(whole, "requests_per_s", "mean_ms", "p95_ms", "p99_ms", "error_percent"),
            mean_cpu(whole, farm.host_names), home_percent(of, farm),
            *(mean_of(at(of, site), "mean_ms") for site in farm.sites),
        ])  # fmt: skip
    columns = (*COLUMNS, *(f"mean ms of {site}'s clients" for site in farm.sites))
    words = [
        f"A round trip takes {1000 * farm.near_s:g} ms to a host at the client's own site, and {1000 * farm.far_s:g} "
        "ms to another site. Each request opens a connection, and so waits for two round trips. 'nearest' uses the "
        "hosts of the client's own site only.",
        *saturated(at(outcomes, ALL)),
    ]
    table = SectionTable("CPU use as a percentage of one core", columns, rows)
    return ReportSection(name.capitalize(), words, [table], _pictures(name, outcomes))


def _pictures(name: str, outcomes: Sequence[MeasuredOutcome]) -> list[ReportPicture]:
    groups = {
        label: {way: mean_of(at(of, ALL), figure) for way, of in by_selection(outcomes).items()}
        for label, figure in (("mean", "mean_ms"), ("95 %", "p95_ms"))
    }
    is_log = name == OVERLOADED  # clients who wait for an overloaded site wait much longer than the others
    draw = partial(report_charts.bars, groups=groups, y="response time, ms", log=is_log)
    return [ReportPicture(f"sites-{name.replace(' ', '-')}", f"Response times of all clients, {name}", draw)]


def at(outcomes: Sequence[MeasuredOutcome], site: str) -> list[MeasuredOutcome]:
    """Return the outcomes of the clients at ``site``."""
    return [outcome for outcome in outcomes if outcome.case.more[SITE] == site]


def home_percent(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> float | None:
    """Return the percentage of the requests that hosts of the client's own site served, or None if unknown."""
    served = [
        (sum(outcome.row.figures.shares.get(host.name, 0.0) for host in farm.hosts_at(site)), outcome.row.figures.ok)
        for site in farm.sites
        for outcome in at(outcomes, site)
        if outcome.row.figures.shares
    ]
    total = sum(count for _, count in served)
    return 100 * sum(share * count for share, count in served) / total if total else None
