"""The report of preset ``trace``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.charts import course
from lbdns_tools.lab.presets.comparing import beside_round_robin, saturated
from lbdns_tools.lab.presets.loading import mean, mean_cpu, part, selections
from lbdns_tools.lab.presets.shapes import DAY_HIGHEST, DAY_LOWEST, DAY_REQUESTS, SCALER_RUNS, scaler_highest
from lbdns_tools.lab.report.section import Cell, Section, Table

WINDOW_S: Final = 3
#: Table 6.2 of the study: auto scale, its optimal policy, always 20 servers
STUDY_COLUMNS: Final = ("", "auto scale", "optimal", "always 20")
STUDY: Final[tuple[tuple[str, float, float, float], ...]] = (
    ("mean response, ms", 144.6, 116.0, 101.8),
    ("99 % response, ms", 409, 321, 254),
    ("mean CPU, %", 44.62, 37.22, 23.84),
    ("requests lost", 343_763, 32_288, 2_148),
)


def sections(outcomes: Sequence[Outcome], farm: Farm) -> list[Section]:
    return [_day(part(outcomes, "day"), farm), _scaler(part(outcomes, "scaler"), farm)]


def _day(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    hosts = [host.name for host in farm.hosts]
    words = [
        f"The study's day had {DAY_REQUESTS / 1e6:.3g} million requests at {DAY_LOWEST:g} to {DAY_HIGHEST:g} a second. "
        "Its curve isn't published; the one here is made up: between the lowest at four in the morning and the highest "
        "at four in the afternoon a raised cosine to the power that gives this number of requests. Time is compressed, "
        "and the rate is in proportion to what best carries on this farm: at most 0.9 of it.",
        *beside_round_robin(outcomes),
        *saturated(outcomes),
        "The study varied the number of servers, which the lab leaves as it is: what adds and removes servers is a "
        "later tool's job. So the columns of the study are there for the order of magnitude.",
    ]
    tables = [totals(outcomes, farm), study_table(outcomes, hosts, farm)]
    return Section(
        "A day", words, tables, course("day", "In the course of the day", outcomes, hosts, window_s=WINDOW_S)
    )


def _scaler(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    hosts = [host.name for host in farm.hosts]
    runs = ", ".join(f"{count} at {rate}/s from {begin} s on" for begin, count, rate in SCALER_RUNS)
    words = [
        f"Runs of httperf, one after another and overlapping ({runs}): up to {scaler_highest():g} connections/s in "
        "20 minutes. Time is compressed, and the rates are in proportion to 0.9 of what best carries.",
        *beside_round_robin(outcomes),
        *saturated(outcomes),
    ]
    pictures = course("scaler", "In the course of the overlapping runs", outcomes, hosts, window_s=WINDOW_S)
    return Section("The load of the reactive scaler", words, [totals(outcomes, farm)], pictures)


def totals(outcomes: Sequence[Outcome], farm: Farm) -> Table:
    """A line for each selection, means over repetitions."""
    hosts = [host.name for host in farm.hosts]
    rows: list[list[Cell]] = []
    for selection in selections(outcomes):
        of = [outcome for outcome in outcomes if outcome.case.selection == selection]
        rows.append([
            selection, mean(of, "requests"), mean(of, "mean_s", 1000), mean(of, "p99_s", 1000),
            mean(of, "failed"), mean(of, "error_percent"), cpu_share(of, hosts, farm),
        ])  # fmt: skip
    columns = ("", "requests", "mean ms", "p99 ms", "lost", "lost %", "mean CPU %")
    return Table("All of it; CPU in % of what the hosts have", columns, rows, digits=4)


def cpu_share(outcomes: Sequence[Outcome], hosts: Sequence[str], farm: Farm) -> float | None:
    """CPU of the hosts in % of what they may use."""
    cores = mean_cpu(outcomes, hosts)
    return None if cores is None else cores / farm.cpu


def study_table(outcomes: Sequence[Outcome], hosts: Sequence[str], farm: Farm) -> Table:
    """Table 6.2 with the lab's selections beside it; what was lost is scaled to the requests of the study."""
    names = selections(outcomes)
    mine: list[list[Cell]] = [[], [], [], []]
    for selection in names:
        of = [outcome for outcome in outcomes if outcome.case.selection == selection]
        lost = mean(of, "error_percent", DAY_REQUESTS / 100)
        for line, value in zip(
            mine,
            (mean(of, "mean_s", 1000), mean(of, "p99_s", 1000), cpu_share(of, hosts, farm), lost),
            strict=True,
        ):
            line.append(value)
    rows = [[*line, *values] for line, values in zip(STUDY, mine, strict=True)]
    caption = f"Table 6.2 of the study, and the lab; requests lost as if of {DAY_REQUESTS / 1e6:.3g} million"
    return Table(caption, (*STUDY_COLUMNS, *(f"lab, {name}" for name in names)), rows, digits=5)
