"""Checks that lbdns accepts the benchmark farm's configuration, and that the farm's reports are signed and varied."""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

import pytest

from lbdns_shared.keys import new_master_key
from lbdns_shared.report import open_envelope
from lbdns_tools.bench.dns.benchmark_farm import (
    MEMBERS,
    BenchmarkFarm,
    LbdnsProgram,
    address_records,
    configuration,
    random_metrics,
    rate_limit,
    reporting_members,
    zone_text,
)
from lbdns_tools.bench.measured_processes import BenchmarkError


def test_lbdns_accepts_the_configuration(tmp_path: Path) -> None:
    farm = BenchmarkFarm(tmp_path, zone="more A 127.0.0.9\n")
    text = farm.config.read_text()
    assert f'listen = ["0.0.0.0:{farm.port}"]' in text
    assert ("[rate_limit]" in text) == farm.limited
    assert LbdnsProgram().error(farm.config) == ""
    farm.config.write_text(text + "[no_such_section]\n")
    assert "no_such_section" in LbdnsProgram().error(farm.config)
    assert "rate limiting: " in farm.note()


def test_the_names_of_a_large_zone_differ() -> None:
    lines = address_records(f"h{number}" for number in range(70_000)).splitlines()
    assert len({line.split()[0] for line in lines}) == len({line.split()[2] for line in lines}) == 70_000


def test_peers_have_an_alias_where_lbdns_balances() -> None:
    assert "best 30 CNAME gandalf\n" in zone_text(fixed=True, ttl=30)
    assert "CNAME" not in zone_text(fixed=False)


@pytest.mark.parametrize(
    ("limit", "text"),
    [(7, "[rate_limit]\nresponses_per_second = 7\nexempt = []\n"), (None, "[rate_limit]\nexempt = []\n")],
)
def test_no_source_is_exempt_from_the_limit(limit: int | None, text: str) -> None:
    assert rate_limit(limit) == text


def test_planes_are_chosen_by_the_configuration(tmp_path: Path) -> None:
    assert 'plane = "python"' in BenchmarkFarm(tmp_path, plane="python").config.read_text()
    assert "plane" not in configuration("127.0.0.1:53", 5353, "hobbit", "auto")


def test_another_checkout_brings_its_own_packages_and_python(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="must be a checkout of the project"):
        LbdnsProgram(tmp_path)
    (tmp_path / "lbdns").mkdir()
    (tmp_path / "lbdns" / "__init__.py").write_text("")
    (tmp_path / "lbdns" / "__main__.py").write_text("import sys; sys.exit('not this: ' + ' '.join(sys.argv[1:2]))")
    program = LbdnsProgram(tmp_path)
    assert program.error(tmp_path / "lbdns.toml") == "not this: check"
    assert sys.executable in program.command()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert program.command("serve")[-4:] == [str(python), "-m", "lbdns", "serve"]


def test_counters_of_members_only_grow() -> None:
    chance = random.Random(1)
    first, second = random_metrics(chance, 1), random_metrics(chance, 2)
    assert second["requests_total"] > first["requests_total"]
    assert second["run_queue"] != first["run_queue"] or second["cpu_idle"] != first["cpu_idle"]


def test_reports_come_from_the_members() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(60)
        key = new_master_key()
        with reporting_members(sock.getsockname()[1], key):
            hosts = {open_envelope(sock.recv(2000)).host}
            while len(hosts) < 2:
                hosts.add(open_envelope(sock.recv(2000)).host)
    assert hosts <= set(MEMBERS)
