"""The report of the study ``ramp``: sustained rates, and response times compared with the M/M/c model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import mean_cpu, mean_of, means, part, quotient, scaled
from lbdns_tools.lab.report.report_charts import Line, chart, course
from lbdns_tools.lab.report.report_page import ReportCell, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import saturated
from lbdns_tools.lab.report.run_windows import broke_at, windows
from lbdns_tools.queueing_theory import mean_response

WINDOW_S: Final = 3  # long enough for Little's law, and short compared with the ramp
#: A load beyond either limit does not count as carried: users accept this response time, and one failure in a hundred
LIMIT_S: Final = 1.0
FAILED_SHARE: Final = 0.01
#: The cloud study's server: service time, cores
STUDY_SERVICE_S: Final = 0.070
STUDY_CORES: Final = 2


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm, server: LabFarm) -> list[ReportSection]:
    return [_ramp(part(outcomes, "ramp"), farm), _service(part(outcomes, "service"), part(outcomes, "load"), server)]


def _ramp(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    rows: list[list[ReportCell]] = []
    carried: dict[str, float | None] = {}
    for outcome in outcomes:
        rate, why = broke_at(windows(outcome.row, WINDOW_S), LIMIT_S, FAILED_SHARE)
        carried.setdefault(outcome.case.selection, rate)
        rows.append([
            outcome.case.selection, rate, why or "sustained to the end",
            *means([outcome], "mean_ms", "p99_ms", "error_percent"), outcome.row.figures.failed,
            mean_cpu([outcome], farm.host_names),
        ])  # fmt: skip
    columns = (
        "",
        "sustained up to /s",
        "reason for the end",
        "mean ms",
        "p99 ms",
        "errors %",
        "failed",
        "CPU of the hosts",
    )
    words = [
        "The rate rises linearly, with random (Poisson) arrivals. The farm sustains the load until the first window "
        f"of {WINDOW_S} s in which responses take longer than {LIMIT_S:g} s or more than {100 * FAILED_SHARE:g} % of "
        "the requests fail.",
        *_compared(carried),
        *saturated(outcomes),
        "The chart shows response times computed with Little's law: the number of outstanding requests divided by "
        "the completion rate. While few requests are outstanding, the computed response times are imprecise. The "
        "table shows measured response times.",
    ]
    table = SectionTable("Results for the whole ramp; CPU use as a percentage of one core", columns, rows)
    caption = "The ramp over time"
    return ReportSection("Ramp", words, [table], course("ramp", caption, outcomes, farm.host_names, window_s=WINDOW_S))


def _compared(carried: dict[str, float | None]) -> list[str]:
    if not {"best", "round_robin"} <= carried.keys():
        return []
    best, turns = carried["best"], carried["round_robin"]
    if best is None or turns is None:
        names = " and ".join(name for name in ("best", "round_robin") if carried[name] is None)
        return [f"{names} sustained the whole ramp."]
    words = f"'best' sustained {best:.4g} requests/s, 'round_robin' {turns:.4g} requests/s (ratio {best / turns:.2f})."
    return [words if best >= 0.95 * turns else f"{words} 'round_robin' was better."]


def _service(one: Sequence[MeasuredOutcome], loads: Sequence[MeasuredOutcome], server: LabFarm) -> ReportSection:
    cores = round(server.hosts[0].cpu)
    study = STUDY_CORES / STUDY_SERVICE_S
    words = [
        f"One host with {cores} processors serves a page that requires {1000 * STUDY_SERVICE_S:g} ms of CPU time. In "
        f"the cloud study, a host could serve at most {STUDY_CORES} / {STUDY_SERVICE_S:g} s = {study:.3f} requests/s."
    ]
    service_s = mean_of(one, "mean_s")
    if service_s is None:
        return ReportSection(
            "Service time",
            [*words, "There are no results, because the service time with a single client was not measured."],
        )
    passes = cores / service_s
    words += [
        f"A single client waited {1000 * service_s:.3g} ms per request, including the time to start the CGI program. "
        f"With this service time, {cores} processors can handle {cores} / {service_s:.4f} s = {passes:.4g} "
        "requests/s.",
        "The M/M/c column is calculated from the service time of a single client. The M/M/c model assumes "
        "exponentially distributed service times, but these service times are nearly constant. The column still "
        "applies, because the kernel shares processors among all requests. With processor sharing (M/G/c), the mean "
        "response time depends only on the mean service time.",
        *_most_passed(loads, study),
        *saturated(loads),
    ]
    rows: list[list[ReportCell]] = []
    measured: Line = []
    theory: Line = []
    for load in dict.fromkeys(outcome.case.more["load"] for outcome in loads):
        at = [outcome for outcome in loads if outcome.case.more["load"] == load]
        rate = at[0].row.point.rate_per_s or 0.0
        expected, seen = scaled(mean_response(cores, service_s, rate), 1000.0), mean_of(at, "mean_ms")
        rows.append([
            rate, 100 * rate / passes, mean_of(at, "requests_per_s"), seen, expected, quotient(seen, expected),
            *means(at, "p99_ms", "error_percent"), mean_cpu(at, [server.hosts[0].name]),
        ])  # fmt: skip
        measured.append((rate, seen))
        theory.append((rate, expected))
    columns = ("requests/s", "load %", "successful /s", "mean ms", "M/M/c ms", "measured / M/M/c", "p99 ms",
               "errors %", "CPU")  # fmt: skip
    table = SectionTable(
        "Random (Poisson) arrivals; CPU use as a percentage of one core; no M/M/c value if the queue grows "
        "without limit",
        columns,
        rows,
    )
    pictures = chart("service-time", "Mean response time of a single server", {"measured": measured, "M/M/c": theory},
                    "requests/s", "ms", log=True)  # fmt: skip
    return ReportSection("Service time", words, [table], pictures)


def _most_passed(loads: Sequence[MeasuredOutcome], study: float) -> list[str]:
    most = max((rate for outcome in loads if (rate := mean_of([outcome], "requests_per_s")) is not None), default=None)
    if most is None:
        return []
    return [f"The host served at most {most:.4g} requests/s, which is {most / study:.2f} times the study's rate."]
