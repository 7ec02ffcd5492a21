"""Checks the configurations of the agreement benchmark's servers and collectors, and the clock that is ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.model.farm_reader import load_farm
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.bench.agreement_farm import COLLECTORS, MEMBERS, OWN, SHARED, faked, places_of, write_program
from lbdns_tools.bench.agreement_network import Place
from lbdns_tools.bench.dns.benchmark_farm import write_key
from lbdns_tools.bench.measured_processes import BenchmarkError

URL = "nats://127.0.0.1:4222"


@pytest.mark.parametrize("collectors", [OWN, SHARED])
def test_the_servers_share_their_answers(tmp_path: Path, collectors: str) -> None:
    write_key(tmp_path)
    server = write_program(tmp_path / "ns1", Place("ns1"), URL, tmp_path / "report.key", collectors)
    config = load_farm(server.config).config
    assert config.bus.share_answers
    assert [each.endpoint for each in config.bus.url] == [Endpoint("127.0.0.1", 4222)]
    assert tuple(member for pool in config.pools for member in pool.members) == MEMBERS
    if collectors == OWN:
        assert [each.port for each in config.collector.listen] == [server.reports]
    else:
        assert config.collector.connect == "bus"


def test_a_server_in_a_namespace_is_reached_at_its_address(tmp_path: Path) -> None:
    write_key(tmp_path)
    place = Place("ns1", "198.18.0.9", "lbdns-x-ns1")
    server = write_program(tmp_path / "ns1", place, URL, tmp_path / "report.key", SHARED)
    config = load_farm(server.config).config
    assert config.web.listen == Endpoint("198.18.0.9", server.web)
    assert list(map(str, config.web.allow)) == ["198.18.0.9/32"]


def test_only_shared_collectors_have_places_of_their_own() -> None:
    assert set(places_of(SHARED)) - set(places_of(OWN)) == set(COLLECTORS)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.bench.agreement_farm.FAKETIME", "/missing/{}.so")
    assert faked("") == []
    with pytest.raises(BenchmarkError, match="install the Debian package libfaketime"):
        faked("+20s")
