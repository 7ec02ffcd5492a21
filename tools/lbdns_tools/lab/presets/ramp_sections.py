"""The report of preset ``ramp``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.charts import Series, chart, course
from lbdns_tools.lab.presets.comparing import saturated
from lbdns_tools.lab.presets.loading import mean, mean_cpu, part
from lbdns_tools.lab.presets.over_time import Broke, broke_at, windows
from lbdns_tools.lab.presets.points import quotient
from lbdns_tools.lab.presets.queueing import mean_response, passed
from lbdns_tools.lab.report.section import Cell, Section, Table

WINDOW_S: Final = 3  # of the ramp; long enough for Little's law, and short against the ramp
#: From here on a load is not carried: as long as people still feel they are served, and one failure in a hundred
LIMIT_S: Final = 1.0
FAILED_SHARE: Final = 0.01
#: The cloud study's server: service time, cores
STUDY_SERVICE_S: Final = 0.070
STUDY_CORES: Final = 2


def sections(outcomes: Sequence[Outcome], farm: Farm, server: Farm) -> list[Section]:
    return [
        _ramp(part(outcomes, "ramp"), farm),
        _service(part(outcomes, "service"), part(outcomes, "load"), server),
    ]


def _ramp(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    hosts = [host.name for host in farm.hosts]
    rows: list[list[Cell]] = []
    broken: dict[str, Broke] = {}
    for outcome in outcomes:
        broke = broke_at(windows(outcome.row, WINDOW_S), LIMIT_S, FAILED_SHARE)
        broken.setdefault(outcome.case.selection, broke)
        of = [outcome]
        rows.append([
            outcome.case.selection, broke.rate, broke.why or "carried to the end", mean(of, "mean_s", 1000),
            mean(of, "p99_s", 1000), mean(of, "error_percent"), outcome.row.figures.failed, mean_cpu(of, hosts),
        ])  # fmt: skip
    columns = ("", "carried up to /s", "what ended it", "mean ms", "p99 ms", "errors %", "failed", "CPU of the hosts")
    words = [
        f"The rate rises in a straight line, by chance in detail (Poisson). It counts as carried until {WINDOW_S} s "
        f"in which responses took longer than {LIMIT_S:g} s or more than {100 * FAILED_SHARE:g} % failed.",
        *_compared(broken),
        *saturated(outcomes),
        "Response times in the picture are those of Little's law: requests under way divided by the rate at which "
        "they end. They are rough while few are under way; those of the table are measured one by one.",
    ]
    table = Table("The whole ramp; CPU in % of one core", columns, rows)
    caption = "In the course of the ramp"
    return Section("Ramp", words, [table], course("ramp", caption, outcomes, hosts, window_s=WINDOW_S))


def _compared(broken: dict[str, Broke]) -> list[str]:
    if not {"best", "round_robin"} <= broken.keys():
        return []
    best, turns = broken["best"].rate, broken["round_robin"].rate
    if best is None or turns is None:
        names = " and ".join(name for name in ("best", "round_robin") if broken[name].rate is None)
        return [f"{names} carried the ramp to its end."]
    words = f"best carried {best:.4g} requests/s, round robin {turns:.4g}: {best / turns:.2f} times as much."
    return [words if best >= 0.95 * turns else f"{words} That is worse than round robin."]


def _service(one: Sequence[Outcome], loads: Sequence[Outcome], server: Farm) -> Section:
    cores = round(server.hosts[0].cpu)
    study = passed(STUDY_CORES, STUDY_SERVICE_S)
    words = [
        f"One host with {cores} processors and a page that takes {1000 * STUDY_SERVICE_S:g} ms of CPU. In the study "
        f"such a server passed {STUDY_CORES} / {STUDY_SERVICE_S:g} s = {study:.3f} requests/s.",
    ]
    service_s = mean(one, "mean_s")
    if service_s is None:
        return Section("Service time", [*words, "The service time of one client was not measured: no result."])
    passes = passed(cores, service_s)
    words += [
        f"One client waited {1000 * service_s:.3g} ms: with the program's start, what two processors pass would be "
        f"{cores} / {service_s:.4f} s = {passes:.4g} requests/s.",
        "The formula beside the measured figures is that of M/M/c, with this service time. The service time here is "
        "nearly constant, and a kernel shares its processors among all requests; then the mean response depends on "
        "the mean service time only (M/G/c with processor sharing).",
        *_most_passed(loads, study),
        *saturated(loads),
    ]
    rows: list[list[Cell]] = []
    measured: Series = []
    theory: Series = []
    for load in dict.fromkeys(outcome.case.more["load"] for outcome in loads):
        at = [outcome for outcome in loads if outcome.case.more["load"] == load]
        rate = at[0].row.point.rate_per_s or 0.0
        expected, seen = mean_response(cores, service_s, rate), mean(at, "mean_s")
        rows.append([
            rate, 100 * rate / passes, mean(at, "requests_per_s"), None if seen is None else 1000 * seen,
            None if expected is None else 1000 * expected, quotient(seen, expected), mean(at, "p99_s", 1000),
            mean(at, "error_percent"), mean_cpu(at, [server.hosts[0].name]),
        ])  # fmt: skip
        measured.append((rate, None if seen is None else 1000 * seen))
        theory.append((rate, None if expected is None else 1000 * expected))
    columns = ("requests/s", "load %", "answered well /s", "mean ms", "M/M/c ms", "measured / M/M/c", "p99 ms",
               "errors %", "CPU")  # fmt: skip
    table = Table(
        "Requests by chance (Poisson); CPU in % of one core; no M/M/c where the queue would grow", columns, rows
    )
    pictures = chart("service-time", "Mean response of one server in ms", {"measured": measured, "M/M/c": theory},
                    "requests/s", "ms", log=True)  # fmt: skip
    return Section("Service time", words, [table], pictures)


def _most_passed(loads: Sequence[Outcome], study: float) -> list[str]:
    most = max((rate for outcome in loads if (rate := mean([outcome], "requests_per_s")) is not None), default=None)
    if most is None:
        return []
    return [f"The most it passed in earnest was {most:.4g} requests/s, {most / study:.2f} times the study's figure."]
