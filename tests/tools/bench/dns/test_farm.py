"""The farm that benchmarks ask: lbdns takes its configuration, and reports come in signed and moving."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from lbdns.keys import new_master_key
from lbdns.report import open_envelope
from lbdns_tools.bench.dns.farm import MEMBERS, Farm, Reports, accepts, loads, plane_line, rate_limit, zone_text
from lbdns_tools.bench.dns.processes import BenchError
from lbdns_tools.bench.dns.servers import plane_of


def test_lbdns_takes_the_configuration(tmp_path: Path) -> None:
    farm = Farm(tmp_path, zone="more A 127.0.0.9\n")
    text = farm.config.read_text()
    assert f'listen = ["0.0.0.0:{farm.port}"]' in text
    assert ("[rate_limit]" in text) == farm.limited
    assert accepts(tmp_path, text) == ""
    assert "no_such_section" in accepts(tmp_path, text + "[no_such_section]\n")
    assert "rate limiting: " in farm.note()


def test_peers_have_an_alias_where_lbdns_balances() -> None:
    assert "best 30 CNAME gandalf\n" in zone_text(fixed=True, ttl=30)
    assert "CNAME" not in zone_text(fixed=False)


@pytest.mark.parametrize(
    ("limit", "text"),
    [(7, "[rate_limit]\nresponses_per_second = 7\nexempt = []\n"), (None, "[rate_limit]\nexempt = []\n")],
)
def test_nobody_is_exempt_from_the_limit(limit: int | None, text: str) -> None:
    assert rate_limit(limit) == text


def test_planes_are_chosen_by_the_configuration(tmp_path: Path) -> None:
    assert 'plane = "python"' in Farm(tmp_path, plane="python").config.read_text()
    assert plane_line("auto") == ""


def test_the_plane_that_runs_is_looked_at() -> None:
    log = "INFO lbdns.server: ready: 2 zones, 1 pools, native plane\n"
    assert plane_of(log, "auto") == plane_of(log, "native") == "native plane"
    with pytest.raises(BenchError, match="by the native plane, not the python one"):
        plane_of(log, "python")
    assert plane_of("", "auto") == "unknown plane"


def test_counters_of_members_only_grow() -> None:
    chance = random.Random(1)
    first, second = loads(chance, 1), loads(chance, 2)
    assert second["requests_total"] > first["requests_total"]
    assert second["run_queue"] != first["run_queue"] or second["cpu_idle"] != first["cpu_idle"]


def test_reports_come_from_the_members() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5)
        key = new_master_key()
        with Reports(sock.getsockname()[1], key):
            hosts = {open_envelope(sock.recv(2000)).host for _ in range(2)}
    assert hosts <= set(MEMBERS)
    assert len(hosts) == 2
