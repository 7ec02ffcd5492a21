"""The report of the study ``capacity``: sustained rates, and the CPU use and response times at each rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import ALONE, front_group, strongest
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.measuring.kernel_limits import shortages
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, means, most_memory, part, quotient
from lbdns_tools.lab.report.report_charts import Line, chart
from lbdns_tools.lab.report.report_page import ReportCell, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import saturated
from lbdns_tools.load.capacity_search import FailureCriteria

#: The criteria by which a rate fails, for the frontier and for skipping higher rates
CRITERIA: Final = FailureCriteria(error_percent=1.0, percentile=99, limit_s=1.0, achieved_share=0.95)

FIGURES: Final = ("requests_per_s", "mean_ms", "p95_ms", "error_percent")
QUOTA_USED: Final = 0.95  # share of a CPU quota from which the quota counts as used up; samples vary
_LACKS: Final[Mapping[str, str]] = {
    "port": "no source port was free",
    "descriptor": "no descriptor was free",
    "connection": "the limit of connections was reached",
    "memory": "the kernel had no memory for a socket",
}
STUDY_RATES: Final = (400, 800, 1200, 1600, 2000, 2400)  # connections/s
#: The balancer in the operating-system study at those rates: CPU in %, mean response in ms, memory in %
STUDY: Final[Mapping[str, tuple[tuple[float, ...], ...]]] = {
    "Ubuntu": (
        (0.85, 1.73, 4.15, 4.26, 6.82, 5.99), (1.7, 2.3, 1.5, 2.2, 1.5, 1.9), (3.48, 3.49, 3.58, 3.53, 3.57, 3.57),
    ),
    "FreeBSD": ((1, 2, 3, 4, 5, 6), (1.4, 1.4, 1.9, 2.2, 2.6, 1.8), (3.70, 3.81, 3.93, 4.04, 4.15, 4.38)),
    "CentOS": (
        (1.07, 2.52, 3.63, 4.46, 4.74, 5.83), (1.07, 1.07, 1.3, 1.7, 1.8, 1.8), (5.72, 5.71, 5.70, 5.72, 5.71, 5.76),
    ),
}  # fmt: skip
_STUDY_COLUMNS: Final = ("CPU %", "mean ms", "memory %")
#: The most connections that each system carried at 1,000 connections/s, and its highest rate
STUDY_FRONTIER: Final[Mapping[str, tuple[str, float]]] = {
    "Ubuntu": ("34,000", 4800),
    "FreeBSD": ("500,000", 9000),
    "CentOS": ("110,000 to 140,000", 1000),
    "OpenBSD": ("4,700", 40),
}


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> list[ReportSection]:
    return [
        _carried(part(outcomes, "carried"), farm),
        _against_rate(part(outcomes, "rate"), farm),
        _frontier([edge for edge in part(outcomes, "edge") if "setting" not in edge.case.more]),
        _settings(part(outcomes, "edge"), farm),
        _shortages([*part(outcomes, "rate"), *part(outcomes, "trial")], farm),
    ]


def _name(selection: str, farm: LabFarm) -> str:
    return f"{strongest(farm).name} alone" if selection == ALONE else selection


def _front_cpu(selection: str, outcomes: Sequence[MeasuredOutcome]) -> float | None:
    group = front_group(selection)
    return mean_cpu(outcomes, [group]) if group else None


def _carried(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    rows: list[list[ReportCell]] = [
        [_name(selection, farm), *means(of, *FIGURES), mean_cpu(of, farm.host_names), _front_cpu(selection, of)]
        for selection, of in by_selection(outcomes).items()
    ]
    columns = ("", "requests/s", "mean ms", "p95 ms", "errors %", "CPU of the hosts", "CPU of proxy or lbdns")
    table = SectionTable("Clients send requests without pause; CPU use as a percentage of one core", columns, rows)
    words = [
        f"Clients request a 1 kB page, with one connection per request. The hosts have {farm.cpu:.3g} cores in total."
    ]
    words += saturated(outcomes)
    rates = {str(row[0]): row[1] for row in rows if isinstance(row[1], float)}
    times = quotient(rates.get("best"), rates.get("round_robin"))
    if times is not None:
        words.append(f"With 'best', the farm served {times:.2f} times as many requests/s as with 'round_robin'.")
    return ReportSection("Carried rates", words, [table])


def _against_rate(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    rows: list[list[ReportCell]] = []
    response: dict[str, Line] = {}
    hosts_cpu: dict[str, Line] = {}
    front_cpu: dict[str, Line] = {}
    for selection, of in by_selection(outcomes).items():
        name, group = _name(selection, farm), front_group(selection)
        for rate in dict.fromkeys(outcome.row.point.rate_per_s or 0.0 for outcome in of):
            at = [outcome for outcome in of if outcome.row.point.rate_per_s == rate]
            front, cpu = _front_cpu(selection, at), mean_cpu(at, farm.host_names)
            memory = most_memory(at, group) if group else None
            rows.append([name, rate, *means(at, *FIGURES), cpu, front, memory])
            response.setdefault(name, []).append((rate, mean_of(at, "mean_ms")))
            hosts_cpu.setdefault(name, []).append((rate, cpu))
            if group:
                front_cpu.setdefault(f"{group} ({name})", []).append((rate, front))
    columns = ("", "offered /s", "successful /s", "mean ms", "p95 ms", "errors %", "CPU of the hosts",
               "CPU of proxy or lbdns", "memory of proxy or lbdns, MB")  # fmt: skip
    words = [
        "Requests are sent at regular intervals, regardless of responses. If a selection fails at two consecutive "
        f"rates ({CRITERIA}), higher rates are not measured with that selection.",
        *_cost(outcomes),
        *saturated(outcomes),
        "In the study, the balancer ran on a separate machine and forwarded all traffic, whereas a DNS server only "
        "answers queries. Therefore, compare the study's CPU use only with the CPU use of the proxy. Compare "
        "response times only at rates well below the sustained rate.",
    ]
    tables = [
        SectionTable("Mean CPU use as a percentage of one core, and peak memory use", columns, rows),
        study_table(),
    ]
    pictures = [
        *chart(
            "capacity-response", "Mean response time as a function of the rate", response, "requests/s", "ms", log=True
        ),
        *chart("capacity-hosts", "CPU use of the hosts by rate", hosts_cpu, "requests/s", "% of one core"),
        *chart("capacity-front", "CPU use of the proxy or lbdns by rate", front_cpu, "requests/s", "% of one core"),
    ]
    return ReportSection("Against the rate", words, tables, pictures)


def _cost(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return a sentence about the CPU cost of host selection at the highest rate that all selections sustained."""
    choosing = [selection for selection in by_selection(outcomes) if selection != ALONE]
    held: dict[str, dict[float, list[MeasuredOutcome]]] = {}
    for outcome in outcomes:
        rate = outcome.row.point.rate_per_s or 0.0
        if outcome.case.selection in choosing and not CRITERIA.failing(outcome.row.figures, rate):
            held.setdefault(outcome.case.selection, {}).setdefault(rate, []).append(outcome)
    if len(choosing) < 2:
        return []
    common = set.intersection(*(set(held.get(selection, ())) for selection in choosing))
    if not common:
        return ["No rate was sustained with every selection."]
    rate = max(common)
    costs = {name: _front_cpu(name, of[rate]) for name, of in held.items()}
    known = ", ".join(f"{name} {cost:.3g} %" for name, cost in costs.items() if cost is not None)
    return (
        [
            f"The highest rate that was sustained with every selection is {rate:g} requests/s. At this rate, host "
            f"selection used the following share of one core: {known}."
        ]
        if known
        else []
    )


def study_table() -> SectionTable:
    """Return a table with the results of the operating-system study."""
    columns = ("connections/s", *(f"{name} {column}" for column in _STUDY_COLUMNS for name in STUDY))
    rows = [
        [rate, *(system[figure][place] for figure in range(len(_STUDY_COLUMNS)) for system in STUDY.values())]
        for place, rate in enumerate(STUDY_RATES)
    ]
    return SectionTable(
        "Results of the operating-system study: a balancer forwards 30,000 connections for a 1 kB page", columns, rows
    )


def _settings(edges: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    """Compare the highest rates with and without each of the lab's network settings."""
    untuned = [edge for edge in edges if "setting" in edge.case.more]
    if not untuned:
        return ReportSection("Settings", ["Measured only without --quick, and with the selection 'alone'."])
    counts = {edge.case.more["connections"] for edge in untuned}
    tuned = [
        edge
        for edge in edges
        if edge.case.selection == ALONE and edge not in untuned and edge.case.more["connections"] in counts
    ]
    rows: list[list[ReportCell]] = [
        [str(edge.case.more.get("setting", "as in the lab")), *_limits(edge), "; ".join(shortages(edge.kernel))]
        for edge in (*tuned, *untuned)
    ]
    words = [
        f"The lab raises limits of the network. For each row, {strongest(farm).name} alone was measured with one "
        "setting as it would be without the lab."
    ]
    columns = ("setting", "connections", "highest rate /s", "p99 ms at this rate", "ended at", "what failed above",
               "what was full at this rate")  # fmt: skip
    return ReportSection("Settings", words, [SectionTable("The highest sustained rates by setting", columns, rows)])


def _limits(edge: MeasuredOutcome) -> list[ReportCell]:
    """Return the cells about the result of a search: connections, rate, p99, and what limited it."""
    more = edge.case.more
    highest = more.get("highest_per_s")
    why = str(more["why"]) or {"top": "no rate in the range failed"}.get(str(more["ending"]), "")
    p99_ms = mean_of([edge], "p99_ms") if highest is not None else None
    return [float(more["connections"]), highest, p99_ms, str(more["ending"]), why]


def study_frontier_table() -> SectionTable:
    """Return a table with the limits that the operating-system study found."""
    rows: list[list[ReportCell]] = [[name, *limits] for name, limits in STUDY_FRONTIER.items()]
    return SectionTable(
        "Limits found by the operating-system study, with the balancer on a machine of its own",
        ("", "most connections at 1,000/s", "highest rate, connections/s"),
        rows,
    )


def _frontier(edges: Sequence[MeasuredOutcome]) -> ReportSection:
    rows: list[list[ReportCell]] = []
    series: dict[str, Line] = {}
    for edge in edges:
        more = edge.case.more
        highest, count = more.get("highest_per_s"), float(more["connections"])
        rows.append([edge.case.selection, *_limits(edge)])
        series.setdefault(edge.case.selection, []).append((count, None if highest is None else float(highest)))
    words = [
        "The highest rate depends on how many connections the farm must serve at that rate, because a growing queue "
        "delays clients only gradually.",
        f"A rate fails if any of these conditions holds: {CRITERIA}. If a rate fails, up to two more trials follow, "
        "and the majority decides. The highest rate must pass one more trial. A run is measured until its last "
        "response, so the criteria are stricter with fewer connections. Therefore, compare selections only at equal "
        "numbers of connections.",
    ]
    columns = ("", "connections", "highest rate /s", "p99 ms at this rate", "ended at", "what failed above")
    table = SectionTable("The highest sustained rates (empty if there is no result)", columns, rows)
    pictures = chart("capacity-frontier", "The highest sustained rate by number of connections", series,
                    "connections", "requests/s")  # fmt: skip
    return ReportSection("Connections and rate", words, [table, study_frontier_table()], pictures)


def _shortages(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    """Say what was full in each measurement that failed."""
    rows: list[list[ReportCell]] = []
    for outcome in outcomes:
        rate = outcome.row.point.rate_per_s or 0.0
        if why := CRITERIA.failing(outcome.row.figures, rate):
            full = [*exhausted_quotas(outcome, farm), *missing_at_clients(outcome), *shortages(outcome.kernel)]
            connections = outcome.case.more.get("connections", outcome.row.figures.requests)
            rows.append([_name(outcome.case.selection, farm), connections, rate, why, "; ".join(full)])
    words = [
        "For each measurement that failed, the table lists the CPU quotas that were used up, and the queues, buffers "
        "and tables of the kernel that were full, on all machines of the lab, including the clients. If the last "
        "column is empty, none was: requests waited for a processor that all machines share."
    ]
    if not rows:
        words = ["No measurement failed."]
    table = SectionTable(
        "What was full when a rate failed", ("", "connections", "offered /s", "what failed", "what was full"), rows
    )
    return ReportSection("What was full", words, [table] if rows else [])


def exhausted_quotas(outcome: MeasuredOutcome, farm: LabFarm) -> list[str]:
    """Return a clause for each web host that used at least QUOTA_USED of its CPU quota."""
    used = {host.name: (outcome.cpu_percent(host.name), 100 * host.cpu) for host in farm.hosts}
    return [
        f"{name}: the CPU quota was used up"
        for name, (cpu, quota) in used.items()
        if cpu is not None and cpu >= QUOTA_USED * quota
    ]


def missing_at_clients(outcome: MeasuredOutcome) -> list[str]:
    """Return a clause for each resource that the clients' programs lacked."""
    local = outcome.row.figures.local
    return [f"clients: {words} {local[cause]:,} times" for cause, words in _LACKS.items() if local.get(cause)]
