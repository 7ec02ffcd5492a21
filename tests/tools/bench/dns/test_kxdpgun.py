"""Tests of the command line of kxdpgun, and of how its output is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.bench.dns import kxdpgun, veth_pair
from lbdns_tools.bench.dns.kxdpgun import KxdpgunResult, KxdpgunRun, parse_totals, run_kxdpgun
from lbdns_tools.bench.dns.veth_pair import VethEnd
from lbdns_tools.bench.measured_processes import BenchmarkError

OUTPUT = """using interface wire, XDP threads 1, UDP, native mode
thread#00: sent 20010, received 19945
total queries:     20010 (20010 pps)
total replies:     19945 (19945 pps) (99%)
average DNS reply size: 78 B
responded NOERROR:   19900
responded SERVFAIL:  45
duration: 1 s
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OUTPUT, KxdpgunResult(20010, 19945, 19900)),
        ("total queries:     7 (7 pps)\n", KxdpgunResult(7, 0, 0)),
        ("total queries: 7 (7 pps)\ntotal replies: 7 (7 pps) (100%)\n", KxdpgunResult(7, 7, 0)),
    ],
)
def test_the_totals_are_read(text: str, expected: KxdpgunResult) -> None:
    assert parse_totals(text) == expected


def test_output_without_totals_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match=r"(?s)printed no totals.*failed to initialize"):
        parse_totals("failed to initialize XDP socket")


def test_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script in place of kxdpgun prints its arguments and the totals."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho \"$@\"\ncat <<'END'\n{OUTPUT}END\n")
    program.chmod(0o755)
    monkeypatch.setattr(kxdpgun, "need", lambda name, package: name)
    monkeypatch.setattr(veth_pair, "need", lambda name, package: str(program))
    run = KxdpgunRun(VethEnd("ns", "dev"), 5353, tmp_path / "queries", 0, 20000, 1.5)
    assert run_kxdpgun(run) == KxdpgunResult(20010, 19945, 19900)
    arguments = (tmp_path / "queries.log").read_text().splitlines()[0]
    assert arguments == (
        f"netns exec ns kxdpgun -t 1.5 -Q 20000 -F 0 -p 5353 -I dev -i {tmp_path / 'queries'} 198.18.0.53"
    )
