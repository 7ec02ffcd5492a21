"""What the report of ``webstone`` shows: demands, ratios, the tables and figures of 1999 beside today's. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets import chance, demands
from lbdns_tools.lab.presets.demands import THROUGHPUT, VERDICTS, WORDS, Compared, Demand
from lbdns_tools.lab.presets.points import Found, Key, mean
from lbdns_tools.lab.report import golden, pictures
from lbdns_tools.lab.report.section import Cell, Picture, Section, Table

#: Figure of 1999's tables -> what it is called today, and in words
FIGURES: Final = {
    "connections_per_s": ("connections_per_s", "connections/s"),
    "littles_load_factor": ("littles_load_factor", "Little's load factor"),
    "mean_latency_s": ("mean_s", "mean latency, s"),
    "error_percent": ("error_percent", "errors, %"),
    "throughput_mbit_per_s": ("mbit_per_s", "Mbit/s"),
}
#: What 1999's figures were: throughput and latency
PICTURES: Final = ("connections_per_s", "mean_latency_s")
SELECTIONS: Final = ("round_robin", "best", "best_score")
SCATTER: Final = (
    "Throughput is CPU time that the hosts have used times requests a CPU second. A choice can change the first: it "
    "leaves hosts idle or keeps all busy. The second is the same for both but for chance and whatever else the machine "
    "does: so far does a throughput scatter."
)
WITHIN_CHANCE: Final = (
    "The least and the most of many points are beyond every true value by chance alone. Repetitions tell how far a "
    "ratio scatters, and so what the extreme comes to, in 95 of 100 studies, if all points are as their mean. One that "
    "misses its bound is within chance where the mean meets it and the extreme is no further out than that: no single "
    "point is shown to miss."
)


def sections(outcomes: Sequence[Outcome], farms: Mapping[str, Farm]) -> list[Section]:
    """Those for which something was measured."""
    found = Found(outcomes)
    main = next(iter(farms))  # the unequal farm, or one's own
    parts = [_demands(outcomes, farms)]
    parts += [_ratios(outcomes, farm, resolve, farms) for farm in farms for resolve in WORDS]
    parts += [_literal(found, farms[main], main), _beside_1999(found, main), *_tables(found, main), _own_cpu(outcomes)]
    return [part for part in parts if part.tables or part.pictures]


def _demands(outcomes: Sequence[Outcome], farms: Mapping[str, Farm]) -> Section:
    hosts = [host.name for host in farms["unequal"].hosts] if "unequal" in farms else []
    # On a farm of one's own nothing was promised but the agents' cost
    judged = demands.demands(outcomes, hosts) if hosts else [demands.agents_demand(outcomes)]
    columns = ("demand", "bound", "found", "points", "the extreme by chance", "")
    table = Table("What was demanded, and what came out", columns, _judged(judged))
    counts = Counter(each.verdict for each in judged)
    words = "; ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS)
    repeated = any(each.by_chance for each in judged)
    told = (f"Of {len(judged)} demands {words}.", SCATTER, *((WITHIN_CHANCE,) if repeated else ()))
    return Section("Demands", told, (table,))


def _judged(judged: Iterable[Demand]) -> list[tuple[Cell, ...]]:
    return [
        (each.what, each.wanted, each.value, each.points, str(each.by_chance) if each.by_chance else None, each.verdict)
        for each in judged
    ]


def _ratios(outcomes: Sequence[Outcome], farm: str, resolve: str, farms: Mapping[str, Farm]) -> Section:
    found, hosts = Found(outcomes), [host.name for host in farms[farm].hosts]
    compared = [
        each
        for each in demands.compare(found, "best", "round_robin", hosts)
        if (each.key.farm, each.key.resolve) == (farm, resolve)
    ]
    heading = f"{farm.capitalize()} hosts, a choice {WORDS[resolve]}: best against round robin"
    if not compared:
        return Section(heading)
    columns = (
        "workload", "clients", "round robin, requests/s", "best, requests/s", "ratio", "its error", "1999",
        "of the hosts alone", "round robin, p95 s", "best, p95 s", "ratio of p95", "ratio of mean latency",
        "ratio of the hosts' CPU time", "ratio of requests a CPU second",
    )  # fmt: skip
    one = chance.deviation(each.repeated["throughput"] for each in compared)
    rows = [_ratio_row(found, each, demands.of_the_sum(outcomes, each.key, hosts), one) for each in compared]
    summary = [
        (name, *(_over(compared, figure, of) for figure in ("throughput", "p95", "mean", "work", "pace")))
        for name, of in (("mean", mean), ("least", _least), ("most", _most))
    ]
    if one is not None:
        errors = (
            chance.error_of_mean(each.repeated[figure] for each in compared) for figure in ("throughput", "p95", "mean")
        )
        summary.append(("error of the mean", *errors, None, None))
    ratios = Table("Each point", columns, rows)
    over_all = Table(
        f"Over {len(compared)} points: best / round robin",
        ("", "throughput", "p95", "mean latency", "hosts' CPU time", "requests a CPU second"),
        summary,
    )
    return Section(heading, (), (over_all, ratios))


def _ratio_row(found: Found, each: Compared, of_the_sum: float | None, one: float | None) -> tuple[Cell, ...]:
    """``one`` is how far a single ratio scatters, as a part of it."""
    ratios = each.repeated["throughput"]
    error = chance.error(ratios, one) if ratios and one is not None else None
    key, rotation = each.key, each.key._replace(selection="round_robin")
    then = _ratio_1999("best", "round_robin", key) if key.farm == "unequal" else None
    return (
        key.workload, key.clients, found.figure(rotation, THROUGHPUT), found.figure(key, THROUGHPUT), each.throughput,
        error, then, of_the_sum, found.figure(rotation, "p95_s"), found.figure(key, "p95_s"), each.p95, each.mean,
        each.work, each.pace,
    )  # fmt: skip


def _over(compared: Iterable[Compared], figure: str, of: object) -> float | None:
    assert callable(of)
    value: float | None = of([getattr(each, figure) for each in compared])
    return value


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _literal(found: Found, farm: Farm, name: str) -> Section:
    """The literal rule of 1999, best_score."""
    strongest = max(farm.hosts, key=lambda host: host.cpu)
    columns = (
        "a choice", "workload", "clients", "throughput / best", "throughput / round robin", "p95 / best",
        "p95 / round robin", f"to {strongest.name}", f"to {strongest.name}, best", "",
    )  # fmt: skip
    rows = [
        _literal_row(found, key, strongest.name)
        for key in found.keys
        if key.selection == "best_score" and key.farm == name
    ]
    table = Table(f"best_score; {strongest.name} has {strongest.cpu / farm.cpu:.0%} of the processor", columns, rows)
    words = (
        "best_score gives everybody the server with the highest score until the next report. It wins where it has "
        "more throughput and a lower p95 than best, and herds where it is behind round robin, which knows nothing, in "
        "either.",
    )
    return Section("The literal rule of 1999", words, (table,) if rows else ())


def _literal_row(found: Found, key: Key, host: str) -> tuple[Cell, ...]:
    best, rotation = key._replace(selection="best"), key._replace(selection="round_robin")
    ratios = [found.ratio(key, other, figure) for figure in (THROUGHPUT, "p95_s") for other in (best, rotation)]
    shares = (found.share(key, host), found.share(best, host))
    words = demands.verdict(found, key, "best", "round_robin")
    return (WORDS[key.resolve], key.workload, key.clients, *ratios, *shares, words)


def _beside_1999(found: Found, farm: str) -> Section:
    """How much better each way was than the one before, then and now; and the six figures."""
    columns = ["workload", "clients"]
    for pair in ("round robin / single", "best / round robin"):
        columns += [f"{pair}: 1999", *(f"now, {WORDS[resolve]}" for resolve in WORDS)]
    rows = []
    for line in golden.lines():
        if line.selection == "best":
            row: list[Cell] = [line.workload, line.clients]
            for selection, other in (("round_robin", "single"), ("best", "round_robin")):
                key = Key(farm, selection, line.workload, "", line.clients)
                row += [_ratio_1999(selection, other, key), *(_ratio_now(found, key, other, way) for way in WORDS)]
            rows.append(row)
    measured = [row for row in rows if any(row[at] is not None for at in (3, 4, 6, 7))]
    table = Table("Ratios of connections/s", columns, measured)
    words = ("Ratios can be compared with those of 1999, when machines were other ones; figures can't.",)
    return Section("Beside 1999", words, (table,) if measured else (), tuple(_pictures(found, farm)))


def _ratio_1999(selection: str, other: str, key: Key) -> float | None:
    one = golden.line_of(selection, key.workload, key.clients)
    against = golden.line_of(other, key.workload, key.clients)
    return one.connections_per_s / against.connections_per_s if one and against else None


def _ratio_now(found: Found, key: Key, other: str, resolve: str) -> float | None:
    against = key._replace(selection=other, resolve="" if other == "single" else resolve)
    return found.ratio(key._replace(resolve=resolve), against, "connections_per_s")


def _pictures(found: Found, farm: str) -> Iterable[Picture]:
    """The six figures, each for the way of resolving that was measured; WebStone's is that of 1999."""
    for resolve in WORDS:
        for figure in PICTURES:
            for workload in golden.WORKLOADS:
                now = _series(found, farm, resolve, workload, FIGURES[figure][0])
                if any(selection != "single" for selection in now):
                    yield _picture(figure, workload, resolve, now)


def _picture(figure: str, workload: str, resolve: str, now: pictures.Series) -> Picture:
    words = FIGURES[figure][1]
    then = golden.series(figure, workload)
    return Picture(
        f"{workload}-{figure}-{resolve}",
        f"{workload}: {words} by the number of clients; a choice {WORDS[resolve]}",
        lambda path: pictures.beside_1999(path, now, then, "clients", words),
    )


def _series(found: Found, farm: str, resolve: str, workload: str, figure: str) -> pictures.Series:
    """Every repetition by itself: pictures show how far they scatter."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for key in sorted(found.keys, key=lambda key: key.clients):
        ours = key.resolve == resolve or key.selection == "single"
        if ours and (key.farm, key.workload) == (farm, workload) and key.selection != "alone":
            for outcome in found.at(key):
                if (value := outcome.row.figures.number(figure)) is not None:
                    lines.setdefault(key.selection, []).append((float(key.clients), value))
    order = ("single", *SELECTIONS)
    return {selection: lines[selection] for selection in order if selection in lines}


def _tables(found: Found, farm: str) -> list[Section]:
    """The nine tables, those that DNS chose for once a way of resolving."""
    parts = []
    for resolve in ("", *WORDS):
        tables = [
            table
            for selection in golden.SELECTIONS
            if (selection == "single") == (resolve == "")
            for workload in golden.WORKLOADS
            if (table := _table(found, Key(farm, selection, workload, resolve, 0))).rows
        ]
        heading = f"Tables: a choice {WORDS[resolve]}" if resolve else "Tables: a single server"
        parts.append(Section(heading, (), tables))
    return parts


def _table(found: Found, of: Key) -> Table:
    columns = ["clients"]
    for _, words in FIGURES.values():
        columns += [f"{words}: 1999", "now"]
    rows = []
    for clients in sorted({key.clients for key in found.keys if key == of._replace(clients=key.clients)}):
        key = of._replace(clients=clients)
        then = golden.line_of(of.selection, of.workload, clients)
        row: list[Cell] = [clients]
        for figure, (name, _) in FIGURES.items():
            row += [getattr(then, figure) if then else None, found.figure(key, name)]
        rows.append(row)
    named = golden.table_of(of.selection, of.workload)
    return Table(f"{of.selection}, {of.workload} ({named} of 1999)", columns, rows)


def _own_cpu(outcomes: Sequence[Outcome]) -> Section:
    """What lbdns and its agents cost in each run."""
    columns = ("farm", "selection", "workload", "a choice", "clients", "lbdns", "agent, mean", "agent, the busiest")
    rows = [
        (o.case.farm, o.case.selection, o.case.workload, WORDS.get(o.case.resolve), o.row.point.clients,
         o.cpu_percent("dns"), demands.agents_mean([o]), demands.busiest_agent([o]))
        for o in outcomes
        if o.samples
    ]  # fmt: skip
    table = Table("CPU, % of one core, mean over the run", columns, rows)
    return Section("What lbdns and its agents cost", (), (table,) if rows else ())
