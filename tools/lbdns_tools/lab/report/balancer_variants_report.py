"""The sections of the report on ``balancers`` about variants of the balancers' settings, and httperf's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lbdns_tools.lab.loads.farm_load import front_group
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of_known, means, ms_per_request, part
from lbdns_tools.lab.report.report_page import ReportCell, ReportSection, SectionTable

#: The figures of httperf's output, by their names there (httperf(1))
HTTPERF_TIMES: Final = {
    "least, ms": "min_ms", "mean, ms": "mean_ms", "median, ms": "p50_ms", "greatest, ms": "max_ms",
    "connect, ms": "connect_mean_ms", "response, ms": "response_mean_ms", "transfer, ms": "transfer_mean_ms",
}  # fmt: skip
HTTPERF_RATES: Final = {
    "least requests/s in a second": "rate_min_per_s", "greatest": "rate_max_per_s", "deviation": "rate_deviation_per_s",
}  # fmt: skip
#: Column -> the kind of error or, for the last two, the cause of a local one
HTTPERF_ERRORS: Final = {"time-outs": "timeout", "refused": "refused", "reset": "reset"}
HTTPERF_LOCAL: Final = {"no descriptor": "descriptor", "no port": "port"}
STATUS_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")

LIMIT_WORDS: Final = (
    "HAProxy opens at most 6 or 10 connections to each host at a time (maxconn), and keeps the other requests in a "
    "queue of its own, in the order of their arrival. The 2012 study found 139 requests/s and 160 ms with a limit of "
    "6, and 147 requests/s and 245 ms with a limit of 10 (section 5.2.8).",
)
KEPT_WORDS: Final = (
    "On this farm, Apache keeps connections open for 5 s. nginx_keep_alive uses HTTP/1.1 and keeps up to 16 idle "
    "connections per process; nginx uses HTTP/1.0 and opens a connection for each request, which is its default. "
    "Clients open a connection for each request in both cases.",
)
HTTPS_WORDS: Final = (
    "Clients open a connection with a full TLS handshake for each request. With direct, round_robin and best, the "
    "hosts perform the handshake, and with haproxy_tcp as well, because HAProxy then passes the bytes through in TCP "
    "mode. haproxy_tls, nginx_tls and pound_tls end TLS, and request the page from the hosts over HTTP.",
    "The certificate has an ECDSA key (P-256). Hosts and balancers resume no sessions.",
)
HTTPERF_WORDS: Final = (
    "The figures that httperf prints, for the parts whose rate or number of clients is given. A response lasts from "
    "the request to the first byte, and a transfer from the first to the last byte. The deviation is that of the "
    "seconds within a run.",
)


def variant_sections(outcomes: Sequence[MeasuredOutcome]) -> list[ReportSection]:
    """Return the sections of the parts ``limit``, ``kept`` and ``https``, and the section with httperf's figures."""
    return [
        _variants("Connection limits per host", LIMIT_WORDS, part(outcomes, "limit")),
        _variants("nginx with kept connections to the hosts", KEPT_WORDS, part(outcomes, "kept")),
        _variants("The sweep over HTTPS", HTTPS_WORDS, part(outcomes, "https")),
        _httperf(outcomes),
    ]


def _variants(heading: str, words: Sequence[str], outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = (
        "concurrent", "selection", "requests/s", "mean, ms", "p50, ms", "p95, ms", "TLS handshake, ms", "response, ms",
        "errors, %", "CPU use of balancer or lbdns, % of one core", "its CPU ms/request",
    )  # fmt: skip
    rows = []
    for count in sorted({outcome.row.point.clients or 0 for outcome in outcomes}):
        for selection, of in by_selection(o for o in outcomes if o.row.point.clients == count).items():
            group = front_group(selection)
            figures = means(
                of, "requests_per_s", "mean_ms", "p50_ms", "p95_ms", "tls_mean_ms", "response_mean_ms", "error_percent"
            )
            cpu = mean_cpu(of, [group]) if group else None
            rows.append((count, selection, *figures, cpu, ms_per_request(of, group) if group else None))
    return ReportSection(heading, words, (SectionTable("Clients wait for each response", columns, rows),))


def _httperf(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = (
        "part", "selection", "clients", "rate, requests/s", *HTTPERF_TIMES, *HTTPERF_RATES, *STATUS_CLASSES,
        *HTTPERF_ERRORS, *HTTPERF_LOCAL,
    )  # fmt: skip
    rows = list(_httperf_rows([outcome for outcome in outcomes if outcome.case.more.get("part") != "carried"]))
    return ReportSection("The figures of httperf", HTTPERF_WORDS, (SectionTable("Each point", columns, rows),))


def _httperf_rows(outcomes: Sequence[MeasuredOutcome]) -> Iterator[tuple[ReportCell, ...]]:
    points = dict.fromkeys(
        (
            str(o.case.more.get("part", "")),
            o.case.workload,
            o.case.selection,
            o.row.point.clients,
            o.row.point.rate_per_s,
        )
        for o in outcomes
    )
    for name, workload, selection, clients, rate in points:
        of = [
            o
            for o in part(outcomes, name)
            if (o.case.workload, o.case.selection, o.row.point.clients, o.row.point.rate_per_s)
            == (workload, selection, clients, rate)
        ]
        yield (
            f"{name}, {workload}", selection, clients, rate, *means(of, *HTTPERF_TIMES.values()),
            *means(of, *HTTPERF_RATES.values()),
            *(mean_of_known(o.row.figures.statuses[each] for o in of) for each in STATUS_CLASSES),
            *means(of, *HTTPERF_ERRORS.values()),
            *(mean_of_known(o.row.figures.local[each] for o in of) for each in HTTPERF_LOCAL.values()),
        )  # fmt: skip
