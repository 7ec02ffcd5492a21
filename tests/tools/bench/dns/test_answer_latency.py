"""Tests of computing the ratios between servers' latencies over several rounds."""

from __future__ import annotations

from lbdns_tools.bench.dns.answer_latency import summary

FIGURES = ("kernel_p99_ms", "dnsperf_p99_ms")


def test_ratios_are_taken_within_a_round() -> None:
    ours = [dict.fromkeys(FIGURES, value) for value in (1.0, 4.0, 2.0)]
    theirs = [dict.fromkeys(FIGURES, value) for value in (1.0, 1.0, 1.0)]
    found = summary({"lbdns": ours, "nsd": theirs})
    assert found["nsd"]["lbdns_to_it_kernel_p99"] == 2
    assert found["lbdns"]["lbdns_to_it_kernel_p99"] == 1
    assert found["lbdns"]["kernel_p99_ms"] == 2
