"""Checks the agreement benchmark's configuration, its figure, and the clock that is ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.model.farm import load_farm
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.bench.agreement import difference, faked, names, write_server
from lbdns_tools.bench.dns.benchmark_farm import write_key
from lbdns_tools.bench.measured_processes import BenchmarkError


def test_the_servers_share_their_answers(tmp_path: Path) -> None:
    write_key(tmp_path)
    server = write_server(tmp_path / "ns", 4222, tmp_path / "report.key")
    config = load_farm(server.config).config
    assert config.bus.share_answers
    assert [each.endpoint for each in config.bus.url] == [Endpoint("127.0.0.1", 4222)]
    assert [member for pool in config.pools for member in pool.members] == names()


def test_the_figure_is_the_largest_difference_between_two_servers() -> None:
    rows = [(0.1, 0.2, 0.3, 0.4), (0.12, 0.18, 0.3, 0.4), (0.1, 0.2, 0.35, 0.35)]
    shares = [{"best": dict(zip(names(), row, strict=True))} for row in rows]
    assert difference(shares, "best") == pytest.approx(0.05)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.bench.agreement.FAKETIME", "/missing/{}.so")
    assert faked("") == {}
    with pytest.raises(BenchmarkError, match="install the Debian package libfaketime"):
        faked("+20s")
