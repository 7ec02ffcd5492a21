"""The benchmark of the load generator beside others, for a moment; its figures are for a quiet machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lbdns_tools.bench.load import difference
from tests.needs import needs


def test_difference() -> None:
    assert difference(110.0, 100.0) == pytest.approx(0.1)
    assert difference(1.0, 0.0) == float("inf")


@needs(programs=("apache2", "ab", "wrk", "httperf"), root=True)
def test_every_program_is_asked_and_answers() -> None:
    command = [
        sys.executable,
        "-m",
        "lbdns_tools.bench.load",
        "--seconds",
        "1",
        "--repeats",
        "1",
        "--rate",
        "20",
        "--json",
    ]
    cores = ["--server-core", "0", "--load-core", "0"]  # any machine has that one
    done = subprocess.run([*command, *cores], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for way in ("keep-alive off", "keep-alive on"):
        assert all(each["requests_per_s"] > 0 for each in result[way].values())
        assert result[way]["lbdns-load"]["failed"] == 0
    assert set(result["cgi"]) == {"lbdns-load", "ab", "wrk"}
    assert result["rate"]["httperf"]["mean_ms"] > 0
    assert result["sleep"]["lbdns-load"]["mean_ms"] > 200 < result["sleep"]["httperf"]["mean_ms"]
    assert result["rate"]["httperf"]["runs"][0]["failed"] == result["rate"]["lbdns-load"]["runs"][0]["failed"] == 0
