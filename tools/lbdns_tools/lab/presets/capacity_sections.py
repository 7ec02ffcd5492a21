"""The report of preset ``capacity``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import PROXIES, Farm
from lbdns_tools.lab.presets.charts import Series, chart
from lbdns_tools.lab.presets.comparing import saturated
from lbdns_tools.lab.presets.loading import ALONE, mean, mean_cpu, most_memory, part, selections, strongest
from lbdns_tools.lab.presets.points import quotient
from lbdns_tools.lab.report.section import Cell, Section, Table
from lbdns_tools.load.search import Criteria

#: What failing is, for the frontier and for leaving out higher rates
CRITERIA: Final = Criteria(error_percent=1.0, percentile=99, limit_s=1.0, achieved_share=0.95)

STUDY_RATES: Final = (400, 800, 1200, 1600, 2000, 2400)  # connections/s
#: Of the balancer in the operating-system study at those rates: CPU in %, mean response in ms
STUDY: Final[Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "Ubuntu": ((0.85, 1.73, 4.15, 4.26, 6.82, 5.99), (1.7, 2.3, 1.5, 2.2, 1.5, 1.9)),
    "FreeBSD": ((1, 2, 3, 4, 5, 6), (1.4, 1.4, 1.9, 2.2, 2.6, 1.8)),
    "CentOS": ((1.07, 2.52, 3.63, 4.46, 4.74, 5.83), (1.07, 1.07, 1.3, 1.7, 1.8, 1.8)),
}


def sections(outcomes: Sequence[Outcome], farm: Farm) -> list[Section]:
    return [
        _carried(part(outcomes, "carried"), farm),
        _against_rate(part(outcomes, "rate"), farm),
        _frontier(part(outcomes, "edge")),
    ]


def in_front(selection: str) -> str:
    """The group of what chooses: the proxy, or the DNS server."""
    return selection if selection in PROXIES else "dns"


def _name(selection: str, farm: Farm) -> str:
    return f"{strongest(farm)} alone" if selection == ALONE else selection


def _carried(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    hosts = [host.name for host in farm.hosts]
    rows: list[list[Cell]] = []
    for selection in selections(outcomes):
        of = [outcome for outcome in outcomes if outcome.case.selection == selection]
        rows.append([
            _name(selection, farm), mean(of, "requests_per_s"), mean(of, "mean_s", 1000), mean(of, "p95_s", 1000),
            mean(of, "error_percent"), mean_cpu(of, hosts),
            None if selection == ALONE else mean_cpu(of, [in_front(selection)]),
        ])  # fmt: skip
    columns = ("", "requests/s", "mean ms", "p95 ms", "errors %", "CPU of the hosts", "CPU of what chooses")
    table = Table("Clients that ask again as soon as they have a response; CPU in % of one core", columns, rows)
    words = [f"A page of 1 kB, a connection each. The hosts have {farm.cpu:.3g} cores in all."]
    words += saturated(outcomes)
    rates = {str(row[0]): row[1] for row in rows if isinstance(row[1], float)}
    times = quotient(rates.get("best"), rates.get("round_robin"))
    if times is not None:
        words.append(f"Chosen by best, the farm carried {times:.2f} times as much as by round robin.")
    return Section("What is carried", words, [table])


def _against_rate(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    hosts = [host.name for host in farm.hosts]
    rows: list[list[Cell]] = []
    response: dict[str, Series] = {}
    hosts_cpu: dict[str, Series] = {}
    front_cpu: dict[str, Series] = {}
    for selection in selections(outcomes):
        of = [outcome for outcome in outcomes if outcome.case.selection == selection]
        name = _name(selection, farm)
        for rate in dict.fromkeys(outcome.row.point.rate_per_s or 0.0 for outcome in of):
            at = [outcome for outcome in of if outcome.row.point.rate_per_s == rate]
            mean_ms, front = mean(at, "mean_s", 1000), mean_cpu(at, [in_front(selection)])
            front, cpu = (None if selection == ALONE else front), mean_cpu(at, hosts)
            memory = None if selection == ALONE else most_memory(at, in_front(selection))
            rows.append([
                name, rate, mean(at, "requests_per_s"), mean_ms, mean(at, "p95_s", 1000), mean(at, "error_percent"),
                cpu, front, memory,
            ])  # fmt: skip
            response.setdefault(name, []).append((rate, mean_ms))
            hosts_cpu.setdefault(name, []).append((rate, cpu))
            if selection != ALONE:
                front_cpu.setdefault(in_front(selection) + f" ({name})", []).append((rate, front))
    columns = ("", "asked for /s", "answered well /s", "mean ms", "p95 ms", "errors %", "CPU of the hosts",
               "CPU of what chooses", "memory of what chooses, MB")  # fmt: skip
    words = [
        "Requests come evenly, whether or not others have been answered. Two rates in a row that failed "
        f"({CRITERIA}) end a selection: higher ones are no result.",
        *_cost(outcomes),
        *saturated(outcomes),
        "The study's balancer had a machine of its own and passed everything through; what chooses by DNS sees names "
        "only. So the study's CPU is to be put beside the proxy's, and its response times beside those well below "
        "what is carried.",
    ]
    tables = [Table("CPU in % of one core, in the mean; memory at most", columns, rows), study_table()]
    pictures = [
        *chart("capacity-response", "Mean response in ms against the rate", response, "requests/s", "ms", log=True),
        *chart("capacity-hosts", "CPU of the hosts against the rate", hosts_cpu, "requests/s", "% of one core"),
        *chart("capacity-front", "CPU of what chooses against the rate", front_cpu, "requests/s", "% of one core"),
    ]
    return Section("Against the rate", words, tables, pictures)


def _cost(outcomes: Sequence[Outcome]) -> list[str]:
    """What choosing costs, at the highest rate that was carried by all that choose."""
    choosing = [selection for selection in selections(outcomes) if selection != ALONE]
    held: dict[str, dict[float, list[Outcome]]] = {}
    for outcome in outcomes:
        rate = outcome.row.point.rate_per_s or 0.0
        if outcome.case.selection in choosing and not CRITERIA.failing(outcome.row.figures, rate):
            held.setdefault(outcome.case.selection, {}).setdefault(rate, []).append(outcome)
    if len(choosing) < 2:
        return []
    common = set.intersection(*(set(held.get(selection, ())) for selection in choosing))
    if not common:
        return ["There is no rate that all of them carried."]
    rate = max(common)
    costs = {name: mean_cpu(of[rate], [in_front(name)]) for name, of in held.items()}
    known = ", ".join(f"{name} {cost:.3g} %" for name, cost in costs.items() if cost is not None)
    return [f"At {rate:g}/s, the highest rate all carried, choosing took of one core: {known}."] if known else []


def study_table() -> Table:
    """The operating-system study's figures."""
    columns = ("connections/s", *(f"{name} CPU %" for name in STUDY), *(f"{name} mean ms" for name in STUDY))
    rows = [
        [rate, *(cpu[place] for cpu, _ in STUDY.values()), *(ms[place] for _, ms in STUDY.values())]
        for place, rate in enumerate(STUDY_RATES)
    ]
    return Table("The operating-system study: a balancer with 30000 connections of a 1 kB page", columns, rows)


def _frontier(edges: Sequence[Outcome]) -> Section:
    rows: list[list[Cell]] = []
    series: dict[str, Series] = {}
    for edge in edges:
        more = edge.case.more
        highest, count = more.get("highest_per_s"), float(more["connections"])
        why = str(more["why"]) or {"top": "nothing up to the end of the range"}.get(str(more["ending"]), "")
        p99_ms = mean([edge], "p99_s", 1000) if highest is not None else None
        rows.append([edge.case.selection, count, highest, p99_ms, str(more["ending"]), why])
        series.setdefault(edge.case.selection, []).append((count, None if highest is None else float(highest)))
    words = [
        "The highest rate means nothing without the number of connections it is held for: a queue that grows takes "
        "its time until somebody waits too long.",
        f"A rate fails with {CRITERIA}. One that fails is tried twice more and the majority counts; what is found has "
        "to hold once more. The time until the last response counts, so a short run of few connections is judged more "
        "strictly: what is compared are selections at the same number.",
    ]
    columns = ("", "connections", "highest rate /s", "p99 ms there", "ended at", "what failed above")
    table = Table("The frontier; no rate is no result", columns, rows)
    pictures = chart("capacity-frontier", "The highest rate against the number of connections", series,
                    "connections", "requests/s")  # fmt: skip
    return Section("Connections and rate", words, [table], pictures)
