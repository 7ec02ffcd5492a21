"""Tests of the command line for dnsperf, and of the parser of dnsperf's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.bench.dns.dnsperf import (
    DnsperfResult,
    DnsperfRun,
    latencies,
    parse_statistics,
    run_dnsperf,
    write_queries,
)
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.free_ports import free_port
from tests.needs import needs

PRINTED = """DNS Performance Testing Tool
> NOERROR best.hobbit A 0.000295
> NXDOMAIN round.robin.hobbit A 0.001500
> T nobody.hobbit A
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         1001
  Queries completed:    1000 (99.90%)
  Queries lost:         1 (0.10%)

  Response codes:       NOERROR 900 (90.00%), NXDOMAIN 100 (10.00%)
  Average packet size:  request 54, response 80
  Run time (s):         2.500000
  Queries per second:   400.000000
"""


def test_statistics_are_read() -> None:
    found = parse_statistics(PRINTED)
    assert found == DnsperfResult(sent=1001, answered=1000, seconds=2.5, rcodes={"NOERROR": 900, "NXDOMAIN": 100})
    assert found.lost == 1
    assert found.rate == 400


@pytest.mark.parametrize("text", ["", "Statistics:", PRINTED.replace("2.500000", "0.000000")])
def test_without_statistics_an_error_shows_what_was_printed(text: str) -> None:
    with pytest.raises(BenchmarkError, match="no statistics"):
        parse_statistics(text)


def test_latencies_are_of_answers_alone() -> None:
    assert latencies(PRINTED) == pytest.approx([0.295, 1.5])


@needs(programs=("dnsperf", "taskset"))
def test_a_run_has_an_end() -> None:
    command_line = " ".join(DnsperfRun(5300, Path("q"), core=0, seconds=2, rate=99.9, options=("-e", "-v")).command())
    assert "-p 5300 -d q -e -v" in command_line
    assert command_line.endswith("-l 2 -Q 99")
    assert DnsperfRun(5300, Path("q"), core=0, runs=3).command()[-2:] == ["-n", "3"]
    with pytest.raises(AssertionError):
        DnsperfRun(5300, Path("q"), core=0).command()


@needs(programs=("dnsperf", "taskset"))
def test_dnsperf_without_a_server_is_no_load(tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q", [("best.hobbit", "A"), ("x.hobbit", "MX")])
    assert queries.read_text() == "best.hobbit A\nx.hobbit MX\n"
    assert run_dnsperf(DnsperfRun(free_port(), queries, core=0, seconds=0.3, rate=20)).answered == 0
    with pytest.raises(BenchmarkError, match="exit status"):
        run_dnsperf(DnsperfRun(free_port(), tmp_path / "absent", core=0, seconds=0.3))
