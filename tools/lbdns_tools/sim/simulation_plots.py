"""Plots of simulation results: response time against load, shares over time, and herding. Requires matplotlib."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns_tools.plot_files import COLOURS, hide_frame, legend_below, legend_beside, log_times, new, style, tidy
from lbdns_tools.sim.policy_replay import ReplayedPolicy
from lbdns_tools.sim.simulation_output import SimulationRow
from lbdns_tools.sim.simulation_results import SimulationResult
from lbdns_tools.sim.simulation_scenario import DEADLINE, OtherWork, Outage, Scenario, Slowdown, Surge
from lbdns_tools.sim.simulation_study import load_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS: Final = ("response", "shares", "herding")
#: A policy has the same colour and marker in every picture
ORDER: Final = ("best", "round_robin", "oracle", "best_score", "weighted", "least_charged", "two_choices")
WINDOW: Final = 60  # s of a run that the picture of herding shows; later seconds look the same
LOAD_TICKS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
AVERAGED: Final = 5  # s; one second has too few answers to show shares


#: Title, times, and for each server its values at these times
Panel = tuple[str, Sequence[float], Sequence[Sequence[float]]]


def figure_of(kind: str, rows: Sequence[SimulationRow], runs: Sequence[tuple[Scenario, SimulationResult]]) -> Figure:
    """Return a plot of the given kind. ``runs`` must contain, for each row, the run with the first seed."""
    if kind == "response":
        return response(rows)
    scenario = runs[0][0]
    results = [result for other, result in runs if other is scenario]
    return shares(scenario, results) if kind == "shares" else herding(scenario, results)


def response(rows: Sequence[SimulationRow]) -> Figure:
    """Plot p95 and mean response times by load or number of clients, with one column of panels per workload and
    farm."""
    by_clients = all(load_of(row.scenario) is None for row in rows)
    groups: dict[str, list[SimulationRow]] = defaultdict(list)
    for row in rows:
        groups[_group_name(row.scenario, rows)].append(row)
    figure, axes = new(2, len(groups), max(6.0, 3.4 * len(groups) + 1.2), 6.4, sharex="col", sharey="row")
    policies = dict.fromkeys(row.cell.policy for row in rows)
    known = [*ORDER, *(policy for policy in policies if policy not in ORDER)]
    for column, (name, members) in enumerate(groups.items()):
        for line, (name_of_figure, label) in enumerate((("p95_ms", "95th percentile, ms"), ("mean_ms", "mean, ms"))):
            panel = axes[line][column]
            tidy(panel)
            panel.set_yscale("log")
            for policy in policies:
                shown = [row for row in members if row.cell.policy == policy]
                points = sorted((_place(row, by_clients), getattr(row.cell, name_of_figure)) for row in shown)
                panel.plot(*zip(*points, strict=True), label=policy, **style(known.index(policy)))
            if column == 0:
                panel.set_ylabel(f"response time, {label}")
            if line == 0 and len(groups) > 1:
                panel.set_title(name, fontsize=10)
        axes[1][column].set_xlabel("clients" if by_clients else "load (share of the farm's capacity)")
    for panel in (panel for line in axes for panel in line):
        if panel.get_ylim()[1] >= 1000 * DEADLINE:
            panel.axhline(1000 * DEADLINE, color="#888888", linewidth=0.8, linestyle=":")
        log_times(panel)
    legend_below(figure, axes[0][0])
    what = "number of clients" if by_clients else "load"
    figure.suptitle(f"Response time against {what}, by policy\n(failed requests count as {DEADLINE:g} s)", fontsize=12)
    return figure


def _place(row: SimulationRow, by_clients: bool) -> float:
    return float(row.scenario.clients.count) if by_clients else load_of(row.scenario) or 0.0


def _group_name(scenario: Scenario, rows: Sequence[SimulationRow]) -> str:
    parts = [f"workload {scenario.workload}"]
    if len({row.scenario.servers for row in rows}) > 1 and len({row.scenario.workload for row in rows}) == 1:
        parts = [f"{len(scenario.servers)} servers, capacity {scenario.capacity:.3g}"]
    if len({row.scenario.loss for row in rows}) > 1:
        parts.append(f"{100 * scenario.loss:g} % of reports lost")
    if len({row.scenario.dns_servers for row in rows}) > 1:
        parts.append(f"{scenario.dns_servers} DNS servers")
    return ", ".join(parts)


def shares(scenario: Scenario, results: Sequence[SimulationResult]) -> Figure:
    """Plot each server's share of the answers over time, with one panel per policy."""
    series = []
    for result in results:
        counts = [moment.answers for moment in result.moments if moment.time <= scenario.end]
        steps = [counts[i : i + AVERAGED] for i in range(0, len(counts) - AVERAGED + 1, AVERAGED)]
        sums = [[sum(column) for column in zip(*step, strict=True)] for step in steps]
        series.append((result.policy, [(i + 0.5) * AVERAGED for i in range(len(sums))], sums))
    figure = _stacked([server.name for server in scenario.servers], series)
    _shade(figure.axes, scenario)
    figure.suptitle(f"Share of answers per server over time: {_text(scenario)}", fontsize=12)
    return figure


def replayed_shares(real: ReplayedPolicy | None, replays: Sequence[ReplayedPolicy]) -> Figure:
    """Plot the recorded shares of answers over time, and below them the shares under each policy."""
    everything = [*([("really answered", real)] if real else []), *((f"{r.policy} (replayed)", r) for r in replays)]
    series = [(name, [(i + 0.5) * r.step for i in range(len(r.timeline))], r.timeline) for name, r in everything]
    figure = _stacked(list(replays[0].members), series)
    figure.suptitle("Share of recorded and replayed answers per server over time", fontsize=12)
    return figure


def _stacked(names: Sequence[str], series: Sequence[tuple[str, Sequence[float], Sequence[Sequence[int]]]]) -> Figure:
    figure, axes = new(len(series), 1, 9.0, 1.2 + 2.0 * len(series), sharex=True)
    colours = [_colour(i, len(names)) for i in range(len(names))]
    for (panel,), (name, times, counts) in zip(axes, series, strict=True):
        shown = [time for time, row in zip(times, counts, strict=True) if any(row)]
        percent = [[100 * count / sum(row) for count in row] for row in counts if any(row)]
        if shown:
            columns = list(zip(*percent, strict=True))
            panel.stackplot(shown, *columns, labels=names, colors=colours, edgecolor="white", linewidth=0.3)
            panel.set_xlim(shown[0], max(shown[-1], shown[0] + 1))
        panel.set_ylim(0, 100)
        panel.set_ylabel("answers, %")
        panel.set_title(name, loc="left", fontsize=10)
        hide_frame(panel)
    axes[-1][0].set_xlabel("time, s")
    legend_beside(figure, axes[0][0], is_reversed=True)
    return figure


def _colour(number: int, of: int) -> Any:
    if of <= len(COLOURS):
        return COLOURS[number]
    import matplotlib

    return matplotlib.colormaps["cividis"](number / max(1, of - 1))  # its steps differ in lightness, too


def herding(scenario: Scenario, results: Sequence[SimulationResult]) -> Figure:
    """Plot each server's load over time, with one panel per policy. If a policy causes herding, the load oscillates
    between servers."""
    begin, end = scenario.warm_up, min(scenario.end, scenario.warm_up + WINDOW)
    if _events(scenario):
        begin, end = 0.0, scenario.end
    series = []
    for result in results:
        moments = [moment for moment in result.moments if begin <= moment.time <= end]
        loads = [[m.load[i] / server.cores for m in moments] for i, server in enumerate(scenario.servers)]
        verdict = f"95th percentile {result.p95_ms:,.0f} ms, {result.failed:,} of {result.requests:,} requests failed"
        series.append((f"{result.policy}: {verdict}", [moment.time for moment in moments], loads))
    names = [server.name for server in scenario.servers]
    highest = max((load for _, _, loads in series for server in loads for load in server), default=1.0)
    figure = (_lines if len(names) <= len(COLOURS) else _map)(names, series, highest)
    _shade(figure.axes[: len(series)], scenario)
    figure.axes[len(series) - 1].set_xlabel(f"time, s (reports every {scenario.interval:g} s)")
    figure.suptitle(f"Load of each server over time: {_text(scenario)}", fontsize=12)
    return figure


def _shade(panels: Sequence[Axes], scenario: Scenario) -> None:
    """Mark the start and end of each event."""
    edges = [edge for event in _events(scenario) for edge in (event.start, event.end)]
    for panel in panels:
        for edge in edges:
            if edge <= scenario.end:
                panel.axvline(edge, color="#444444", linewidth=1.0, linestyle="--")


def _events(scenario: Scenario) -> tuple[Outage | Surge | OtherWork | Slowdown, ...]:
    return (*scenario.outages, *scenario.surges, *scenario.other_work, *scenario.slowdowns)


def _lines(names: Sequence[str], series: Sequence[Panel], highest: float) -> Figure:
    """Plot the load of a few servers over time, with one line per server."""
    from matplotlib.ticker import FixedLocator

    figure, axes = new(len(series), 1, 9.0, 1.2 + 2.2 * len(series), sharex=True, sharey=True)
    for (panel,), (title, times, loads) in zip(axes, series, strict=True):
        tidy(panel)
        for i, name in enumerate(names):
            panel.plot(times, loads[i], color=COLOURS[i], label=name, linewidth=1.3)
        panel.set_yscale("symlog", linthresh=2)
        panel.yaxis.set_major_locator(FixedLocator(LOAD_TICKS))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.set_ylim(0, max(2.0, 1.2 * highest))
        panel.set_ylabel("requests per core")
        panel.set_title(title, loc="left", fontsize=10)
    legend_beside(figure, axes[0][0])
    return figure


def _map(names: Sequence[str], series: Sequence[Panel], highest: float) -> Figure:
    """Plot the load of many servers over time, with one row per server. Darker colours mean higher loads."""
    from matplotlib.colors import SymLogNorm

    figure, axes = new(len(series), 1, 9.0, 1.2 + 2.2 * len(series), sharex=True)
    norm = SymLogNorm(linthresh=2, vmin=0, vmax=max(10.0, highest))
    for (panel,), (title, times, loads) in zip(axes, series, strict=True):
        panel.imshow(
            loads,
            aspect="auto",
            interpolation="nearest",
            cmap="cividis_r",
            norm=norm,
            extent=(times[0] - 0.5, times[-1] + 0.5, len(names) - 0.5, -0.5),
        )
        every = -(-len(names) // 20)  # at most 20 names fit next to a panel
        panel.set_yticks(range(0, len(names), every), names[::every], fontsize=8)
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_ylabel("server")
    ticks = [tick for tick in LOAD_TICKS if tick <= max(10.0, highest)]
    panels = [panel for (panel,) in axes]
    bar = figure.colorbar(panels[0].images[0], ax=panels, label="requests per core", ticks=ticks, format="{x:g}")
    bar.minorticks_off()
    return figure


def _text(scenario: Scenario) -> str:
    load = load_of(scenario)
    demand = f"load {load:.2g}" if load is not None else f"{scenario.clients.kind} clients"
    return f"workload {scenario.workload}, {demand}"
