"""The report of the study ``ten-hosts``: throughput and response times in the lab beside those in the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, mean_of_known, quotient, scaled
from lbdns_tools.lab.report.report_page import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import saturated

BUSY: Final = "busy loops"  # the part of the study with other work on the strongest host
CARRIED: Final = "carried"
#: The columns of the simulator's two models, by the words of the report
MODELS: Final = {"slow cores": "simulated", "quotas": "quota"}
#: p95s that differ by less than this factor are alike
ALIKE: Final = 1.5
WORDS: Final = (
    "The simulator has the same hosts, rate or clients, duration and CPU time per request as the lab. With slow cores, "
    "as in its own farms, a request always takes longer on a weak host. With quotas, as in the lab, a host runs at "
    "full speed, and stands still for the rest of a period of 100 ms when it has used up its quota. Neither model has "
    "processes that start, other hosts on the same processors, or an overhead of the kernel's."
)


def sections(outcomes: Sequence[MeasuredOutcome], farms: Mapping[str, LabFarm]) -> list[ReportSection]:
    found = []
    for name, farm in farms.items():
        of = [outcome for outcome in outcomes if outcome.case.farm == name and outcome.case.more["part"] != CARRIED]
        for part in dict.fromkeys(str(outcome.case.more["part"]) for outcome in of):
            measured = [outcome for outcome in of if outcome.case.more["part"] == part]
            found.append(_section(f"{name}, {part}", measured, farm))
    return found


def _section(heading: str, outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    columns = (
        "", "offered /s", "lab /s", *(f"{model} /s" for model in MODELS),
        *(f"lab / {model} (throughput)" for model in MODELS), "lab mean ms", *(f"{model} mean ms" for model in MODELS),
        "lab p95 ms", *(f"{model} p95 ms" for model in MODELS), *(f"lab / {model} (p95)" for model in MODELS),
        "errors %", "CPU of the hosts",
    )  # fmt: skip
    rows = [_row(selection, of, farm) for selection, of in by_selection(outcomes).items()]
    table = SectionTable("CPU use as a percentage of one core", columns, rows)
    words = [WORDS, *_differences(outcomes), *saturated(outcomes)]
    return ReportSection(heading, words, [table], [_picture(heading, outcomes)])


def _row(selection: str, of: Sequence[MeasuredOutcome], farm: LabFarm) -> list[ReportCell]:
    rate, p95, mean = (mean_of(of, name) for name in ("requests_per_s", "p95_s", "mean_s"))
    rates, p95s, means = (
        [simulated(of, model, figure) for model in MODELS.values()] for figure in ("requests_per_s", "p95_s", "mean_s")
    )
    return [
        selection,
        mean_of_known(outcome.row.point.rate_per_s for outcome in of),
        rate,
        *rates,
        *(quotient(rate, other) for other in rates),
        *(scaled(value, 1000.0) for value in (mean, *means, p95, *p95s)),
        *(quotient(p95, other) for other in p95s),
        mean_of(of, "error_percent"),
        mean_cpu(of, farm.host_names),
    ]


def simulated(outcomes: Sequence[MeasuredOutcome], model: str, figure: str) -> float | None:
    """Return the mean of a simulated figure, or None if it was not simulated."""
    values = [outcome.case.more.get(f"{model}_{figure}") for outcome in outcomes]
    return mean_of_known(float(value) if value is not None else None for value in values)


def _differences(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return one sentence for each model, with the selections whose p95 differs from the lab's."""
    found = []
    for words, model in MODELS.items():
        apart = []
        for selection, of in by_selection(outcomes).items():
            ratio = quotient(mean_of(of, "p95_s"), simulated(of, model, "p95_s"))
            if ratio is not None and not 1 / ALIKE <= ratio <= ALIKE:
                apart.append(f"{selection} ({ratio:.2g})")
        verdict = f"differs in the lab (ratio): {', '.join(apart)}" if apart else "is alike for all selections"
        found.append(f"With {words}, the 95th percentile {verdict}.")
    return found


def _picture(heading: str, outcomes: Sequence[MeasuredOutcome]) -> ReportPicture:
    groups = {
        selection: {"lab": mean_of(of, "p95_ms")}
        | {words: scaled(simulated(of, model, "p95_s"), 1000.0) for words, model in MODELS.items()}
        for selection, of in by_selection(outcomes).items()
    }
    name = "ten-hosts-" + heading.lower().replace(",", "").replace(" ", "-").replace(".", "")
    draw = partial(report_charts.bars, groups=groups, y="response time, ms", log=True)
    return ReportPicture(name, f"95th percentile of the response time in lab and simulator: {heading}", draw)
