"""The report of the study ``webstone``, with requirements, ratios to ``round_robin``, and a comparison with 1999."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import strongest
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import ratio_scatter, report_charts, webstone_1999, webstone_demands
from lbdns_tools.lab.report.outcome_index import OutcomeIndex, PointKey
from lbdns_tools.lab.report.report_page import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.report.webstone_demands import THROUGHPUT, VERDICTS, WORDS, SelectionRatios

#: Today's name and heading for each figure in the tables of 1999
FIGURES: Final = {
    "connections_per_s": ("connections_per_s", "connections/s"),
    "littles_load_factor": ("littles_load_factor", "Little's load factor"),
    "mean_latency_s": ("mean_s", "mean latency, s"),
    "error_percent": ("error_percent", "errors, %"),
    "throughput_mbit_per_s": ("mbit_per_s", "Mbit/s"),
}
#: The figures that were charts in 1999: throughput and latency
PICTURES: Final = ("connections_per_s", "mean_latency_s")
SELECTIONS: Final = ("round_robin", "best", "best_score")
SCORES: Final = {
    "headroom": "But the score is lbdns's default, 'headroom', not the score of 1999.",
    "thesis": "The score is that of 1999, 'thesis'.",
}
SCATTER: Final = (
    "Throughput is the hosts' CPU time multiplied by the requests per CPU second. The selection affects the CPU time, "
    "because it may leave hosts idle or keep all hosts busy. The requests per CPU second differ between "
    "selections only by chance or because of other activity on the machine. Their variation therefore indicates the "
    "noise in the throughput."
)
WITHIN_CHANCE: Final = (
    "By chance alone, the lowest and highest of many measured values usually lie outside the range of the true "
    "values. The report calculates a chance range from the variation between repetitions: if all points had the "
    "same true value, the lowest or highest value would lie within the chance range in 95 of 100 studies. The "
    "verdict is 'within chance' if the lowest or highest value misses a bound but lies within the chance range, and "
    "the mean meets the bound. In this case, the results do not show that any point misses the bound."
)


def sections(outcomes: Sequence[MeasuredOutcome], farms: Mapping[str, LabFarm]) -> list[ReportSection]:
    """Return all sections of the report that contain at least one result."""
    found = OutcomeIndex(outcomes)
    main = next(iter(farms))  # the unequal farm, or that of --farm
    parts = [_demands(outcomes, farms)]
    parts += [_ratios(outcomes, farm, resolve, farms) for farm in farms for resolve in WORDS]
    parts += [
        _highest_score(found, farms[main], main),
        _beside_1999(found, main),
        *_tables(found, main),
        _own_cpu(outcomes),
    ]
    return [part for part in parts if part.pictures or any(table.rows for table in part.tables)]


def _demands(outcomes: Sequence[MeasuredOutcome], farms: Mapping[str, LabFarm]) -> ReportSection:
    hosts = farms["unequal"].host_names if "unequal" in farms else ()
    # With --farm, the only demand is on the agents' cost
    judged = webstone_demands.demands(outcomes, hosts) if hosts else [webstone_demands.agents_demand(outcomes)]
    columns = ("requirement", "bound", "result", "points", "chance range", "verdict")
    rows = [
        (each.what, each.wanted, each.value, each.points, each.by_chance and str(each.by_chance), each.verdict)
        for each in judged
    ]
    table = SectionTable("The requirements, with the results and verdicts", columns, rows)
    counts = Counter(each.verdict for each in judged)
    words = "; ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS)
    repeated = any(each.by_chance for each in judged)
    paragraphs = (f"Verdicts on {len(judged)} requirements: {words}.", SCATTER, *((WITHIN_CHANCE,) if repeated else ()))
    return ReportSection("Requirements", paragraphs, (table,))


def _ratios(
    outcomes: Sequence[MeasuredOutcome], farm: str, resolve: str, farms: Mapping[str, LabFarm]
) -> ReportSection:
    found, hosts = OutcomeIndex(outcomes), farms[farm].host_names
    compared = [
        each
        for each in webstone_demands.compare(found, "best", "round_robin", hosts)
        if (each.key.farm, each.key.resolve) == (farm, resolve)
    ]
    heading = f"{farm.capitalize()} hosts, lookups {WORDS[resolve]}: 'best' versus 'round_robin'"
    if not compared:
        return ReportSection(heading)
    columns = (
        "workload", "clients", "round robin, requests/s", "best, requests/s", "ratio", "its error", "1999",
        "ratio to the sum of the single hosts", "round robin, p95 s", "best, p95 s", "ratio of p95",
        "ratio of mean latency", "hosts' CPU time, ratio", "requests per CPU second, ratio",
    )  # fmt: skip
    one = ratio_scatter.deviation(each.repeated["throughput"] for each in compared)
    rows = [_ratio_row(found, each, webstone_demands.of_the_sum(outcomes, each.key, hosts), one) for each in compared]
    summary = [
        (name, *(_over(compared, figure, of) for figure in ("throughput", "p95", "mean", "work", "pace")))
        for name, of in (("mean", fmean), ("least", min), ("most", max))
    ]
    if one is not None:
        repeated = ([each.repeated[figure] for each in compared] for figure in ("throughput", "p95", "mean"))
        summary.append(("error of the mean", *map(ratio_scatter.error_of_mean, repeated), None, None))
    ratios = SectionTable("Each point", columns, rows)
    over_all = SectionTable(
        f"Ratios of 'best' to 'round_robin' over {len(compared)} points",
        ("", "throughput", "p95", "mean latency", "hosts' CPU time", "requests per CPU second"),
        summary,
    )
    return ReportSection(heading, (), (over_all, ratios))


def _ratio_row(
    found: OutcomeIndex, each: SelectionRatios, of_the_sum: float | None, one: float | None
) -> tuple[ReportCell, ...]:
    ratios = each.repeated["throughput"]
    error = ratio_scatter.error(ratios, one) if ratios and one is not None else None
    key, rotation = each.key, each.key._replace(selection="round_robin")
    then = _ratio_1999("best", "round_robin", key) if key.farm == "unequal" else None
    return (
        key.workload, key.clients, found.figure(rotation, THROUGHPUT), found.figure(key, THROUGHPUT), each.throughput,
        error, then, of_the_sum, found.figure(rotation, "p95_s"), found.figure(key, "p95_s"), each.p95, each.mean,
        each.work, each.pace,
    )  # fmt: skip


def _over(compared: Iterable[SelectionRatios], figure: str, of: Callable[[list[float]], float]) -> float | None:
    known = [value for each in compared if (value := getattr(each, figure)) is not None]
    return of(known) if known else None


def _highest_score(found: OutcomeIndex, farm: LabFarm, name: str) -> ReportSection:
    host = strongest(farm)
    columns = (
        "lookups", "workload", "clients", "throughput / best", "throughput / round robin", "p95 / best",
        "p95 / round robin", f"to {host.name}", f"to {host.name}, best", "",
    )  # fmt: skip
    rows = [
        _highest_score_row(found, key, host.name)
        for key in found.keys
        if key.selection == "best_score" and key.farm == name
    ]
    table = SectionTable(
        f"best_score; {host.name} has {host.cpu / farm.cpu:.0%} of the farm's CPU capacity", columns, rows
    )
    words = (
        "As in 1999, 'best_score' sends all clients to the server with the highest score until the next report. "
        f"{SCORES[farm.score]} A point is marked 'wins' if throughput is "
        "higher and p95 is lower than with 'best'. A point is marked 'herds' if throughput or p95 is worse than with "
        "'round_robin', which ignores load.",
    )
    return ReportSection("The highest score until the next report", words, (table,))


def _highest_score_row(found: OutcomeIndex, key: PointKey, host: str) -> tuple[ReportCell, ...]:
    best, rotation = key._replace(selection="best"), key._replace(selection="round_robin")
    ratios = [found.ratio(key, other, figure) for figure in (THROUGHPUT, "p95_s") for other in (best, rotation)]
    shares = (found.share(key, host), found.share(best, host))
    words = webstone_demands.verdict(found, key, "best", "round_robin")
    return (WORDS[key.resolve], key.workload, key.clients, *ratios, *shares, words)


def _beside_1999(found: OutcomeIndex, farm: str) -> ReportSection:
    ways = [resolve for resolve in WORDS if any(key.resolve == resolve for key in found.keys)]
    columns = ["workload", "clients"]
    for pair in ("round robin / single", "best / round robin"):
        columns += [f"{pair}: 1999", *(f"now, {WORDS[resolve]}" for resolve in ways)]
    measured = []
    for line in webstone_1999.lines():
        if line.selection == "best":
            row: list[ReportCell] = [line.workload, line.clients]
            known = False
            for selection, other in (("round_robin", "single"), ("best", "round_robin")):
                key = PointKey(farm, selection, line.workload, "", line.clients)
                now = [_ratio_now(found, key, other, way) for way in ways]
                row += [_ratio_1999(selection, other, key), *now]
                known = known or any(ratio is not None for ratio in now)
            if known:
                measured.append(row)
    table = SectionTable("Ratios of connections/s", columns, measured)
    words = ("Only ratios are comparable with the 1999 results, because absolute values depend on the machines.",)
    return ReportSection("Beside 1999", words, (table,) if measured else (), tuple(_pictures(found, farm)))


def _ratio_1999(selection: str, other: str, key: PointKey) -> float | None:
    one = webstone_1999.line_of(selection, key.workload, key.clients)
    against = webstone_1999.line_of(other, key.workload, key.clients)
    return one.connections_per_s / against.connections_per_s if one and against else None


def _ratio_now(found: OutcomeIndex, key: PointKey, other: str, resolve: str) -> float | None:
    against = key._replace(selection=other, resolve="" if other == "single" else resolve)
    return found.ratio(key._replace(resolve=resolve), against, "connections_per_s")


def _pictures(found: OutcomeIndex, farm: str) -> Iterable[ReportPicture]:
    """Yield six charts for each measured lookup interval."""
    for resolve, figure, workload in product(WORDS, PICTURES, webstone_1999.WORKLOADS):
        name, words = FIGURES[figure]
        now = _series(found, farm, resolve, workload, name)
        if any(selection != "single" for selection in now):
            caption = f"{workload}: {words} by number of clients; lookups {WORDS[resolve]}"
            then = webstone_1999.series(figure, workload)
            draw = partial(report_charts.beside_1999, now=now, then=then, x="clients", y=words)
            yield ReportPicture(f"{workload}-{figure}-{resolve}", caption, draw)


def _series(found: OutcomeIndex, farm: str, resolve: str, workload: str, figure: str) -> report_charts.Series:
    """Return the points of a chart, keyed by selection. Each repetition is a separate point, which makes variation
    visible."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for key in sorted(found.keys, key=lambda key: key.clients):
        ours = key.resolve == resolve or key.selection == "single"
        if ours and (key.farm, key.workload) == (farm, workload) and key.selection != "alone":
            for outcome in found.at(key):
                if (value := outcome.row.figures.number(figure)) is not None:
                    lines.setdefault(key.selection, []).append((float(key.clients), value))
    order = ("single", *SELECTIONS)
    return {selection: lines[selection] for selection in order if selection in lines}


def _tables(found: OutcomeIndex, farm: str) -> list[ReportSection]:
    """Return sections with the nine tables from 1999. Tables for DNS selections are repeated for each lookup
    interval."""
    parts = []
    for resolve in ("", *WORDS):
        tables = [
            table
            for selection in webstone_1999.SELECTIONS
            if (selection == "single") == (resolve == "")
            for workload in webstone_1999.WORKLOADS
            if (table := _table(found, PointKey(farm, selection, workload, resolve, 0))).rows
        ]
        heading = f"Tables: lookups {WORDS[resolve]}" if resolve else "Tables: a single server"
        parts.append(ReportSection(heading, (), tables))
    return parts


def _table(found: OutcomeIndex, of: PointKey) -> SectionTable:
    columns = ["clients"]
    for _, words in FIGURES.values():
        columns += [f"{words}: 1999", "now"]
    rows = []
    for clients in sorted({key.clients for key in found.keys if key == of._replace(clients=key.clients)}):
        key = of._replace(clients=clients)
        then = webstone_1999.line_of(of.selection, of.workload, clients)
        row: list[ReportCell] = [clients]
        for figure, (name, _) in FIGURES.items():
            row += [getattr(then, figure) if then else None, found.figure(key, name)]
        rows.append(row)
    named = webstone_1999.table_of(of.selection, of.workload)
    return SectionTable(f"{of.selection}, {of.workload} ({named} of 1999)", columns, rows)


def _own_cpu(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = ("farm", "selection", "workload", "lookups", "clients", "lbdns", "agents, mean", "busiest agent")
    rows = [
        (o.case.farm, o.case.selection, o.case.workload, WORDS.get(o.case.resolve), o.row.point.clients,
         o.cpu_percent("dns"), webstone_demands.agents_mean([o]), webstone_demands.busiest_agent([o]))
        for o in outcomes
        if o.samples
    ]  # fmt: skip
    table = SectionTable("Mean CPU use during the run, as a percentage of one core", columns, rows)
    return ReportSection("The CPU cost of lbdns and its agents", (), (table,))
