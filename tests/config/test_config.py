"""Tests of lbdns.toml: all documented settings and all defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.config import DEFAULT_NAMES, PoolConfig, ZoneConfig
from lbdns.scores.score import Term
from lbdns_shared.endpoint import Endpoint
from tests.config.config_files import POOL, ZONE, Load

CONTRACT = """\
[server]
listen = ["0.0.0.0:53", "[::]:53"]
workers = 1
user = "lbdns"
state_dir = "/var/lib/lbdns"
control = "/run/lbdns/control.sock"

[[zone]]
name = "hobbit"
file = "zones/hobbit.zone"

[[pool]]
name = "web"
zone = "hobbit"
members = ["gandalf", "frodo", "bilbo"]
names = { best = "best", "round.robin" = "round_robin", weighted = "weighted" }
ttl = 0
answer = "cname"

[collector]
listen = ["0.0.0.0:7777"]
key_file = "/etc/lbdns/report.key"
stale_after = 3.0
score = "thesis"
[web]
listen = "127.0.0.1:8053"
"""


class TestGood:
    def test_the_contract_s(self, load: Load, tmp_path: Path) -> None:
        config = load(CONTRACT)
        assert config.path == tmp_path / "lbdns.toml"
        assert config.server.listen == (Endpoint("0.0.0.0", 53), Endpoint("::", 53))
        assert (config.server.workers, config.server.user) == (1, "lbdns")
        assert config.server.state_dir == Path("/var/lib/lbdns")
        assert config.server.control == Path("/run/lbdns/control.sock")
        assert config.zones == (ZoneConfig("hobbit", tmp_path / "zones" / "hobbit.zone"),)
        assert config.pools == (PoolConfig("web", "hobbit", ("gandalf", "frodo", "bilbo"), DEFAULT_NAMES, 0, "cname"),)
        assert config.collector.listen == (Endpoint("0.0.0.0", 7777),)
        assert config.collector.key_file == Path("/etc/lbdns/report.key")
        assert (config.collector.stale_after, config.collector.score) == (3.0, "thesis")
        assert config.web.listen == Endpoint("127.0.0.1", 8053)

    def test_the_defaults_are_the_contract_s(self, load: Load) -> None:
        config = load(ZONE + POOL)
        contract = load(CONTRACT)
        assert config.server.listen == contract.server.listen
        assert config.server.workers == 1
        assert config.server.user == ""
        assert config.server.state_dir == contract.server.state_dir
        assert config.server.control == contract.server.control
        assert config.pools[0].names == contract.pools[0].names
        assert (config.pools[0].ttl, config.pools[0].answer, config.pools[0].min_usable) == (0, "cname", 0.5)
        assert (config.pools[0].ramp_up, config.pools[0].black_hole) == (10.0, True)
        assert (config.pools[0].coherence, config.pools[0].answers) == (2.0, 1)
        assert config.collector.listen == contract.collector.listen
        assert config.collector.key_file is None
        assert (config.collector.stale_after, config.collector.score) == (3.0, "headroom")
        assert (config.collector.connect, config.collector.stat_file) == ("", None)
        assert config.collector.stat_format == "lbdns"
        assert config.web == contract.web
        assert config.scores == {}

    @pytest.mark.parametrize("form", ['answer = "address"', 'names = { "@" = "best" }'])
    def test_names_with_addresses_can_name_several_members(self, load: Load, form: str) -> None:
        assert load(ZONE + POOL + f"answers = 16\n{form}\n").pools[0].answers == 16

    def test_paths_are_relative_to_the_file(self, load: Load, tmp_path: Path) -> None:
        config = load(
            '[server]\nstate_dir = "state"\ncontrol = "c.sock"\n'
            + ZONE
            + '[collector]\nkey_file = "k"\nstat_file = "s"\n'
        )
        assert [
            config.server.state_dir, config.server.control, config.zones[0].file,
            config.collector.key_file, config.collector.stat_file,
        ] == [tmp_path / name for name in ("state", "c.sock", "hobbit.zone", "k", "s")]  # fmt: skip

    def test_the_format_of_1999(self, load: Load) -> None:
        assert load(ZONE + '[collector]\nstat_file = "s"\nstat_format = "1999"\n').collector.stat_format == "1999"

    def test_several_zones_and_pools(self, load: Load) -> None:
        config = load(ZONE + ZONE.replace("hobbit", "orc") + POOL + POOL.replace("web", "mail"))
        assert [zone.name for zone in config.zones] == ["hobbit", "orc"]
        assert [pool.name for pool in config.pools] == ["web", "mail"]

    @pytest.mark.parametrize(
        ("written", "name"),
        [
            ("Hobbit.", "hobbit"),
            ("a.B.c", "a.b.c"),
            (".", ""),
            ("0/25.2.0.192.in-addr.arpa", "0/25.2.0.192.in-addr.arpa"),
        ],
    )
    def test_zone_names(self, load: Load, written: str, name: str) -> None:
        config = load(ZONE.replace("hobbit", written, 1) + POOL.replace("hobbit", written))
        assert (config.zones[0].name, config.pools[0].zone) == (name, name)

    def test_names_in_any_case_and_the_apex(self, load: Load) -> None:
        pool = load(
            ZONE + POOL.replace('"gandalf"', '"Gandalf", "web.frodo"') + 'names = { "@" = "best", WWW = "weighted" }'
        ).pools[0]
        assert pool.members == ("gandalf", "web.frodo")
        assert pool.names == {"@": "best", "www": "weighted"}

    def test_one_string_is_a_list_of_one(self, load: Load) -> None:
        config = load('[server]\nlisten = "127.0.0.1:5300"\n' + ZONE)
        assert config.server.listen == (Endpoint("127.0.0.1", 5300),)

    def test_ports_have_defaults(self, load: Load) -> None:
        config = load(
            '[server]\nlisten = ["::1"]\n' + ZONE + '[collector]\nlisten = ["::1"]\n[web]\nlisten = "127.0.0.1"\n'
        )
        assert config.server.listen == (Endpoint("::1", 53),)
        assert config.collector.listen == (Endpoint("::1", 7777),)
        assert config.web.listen == Endpoint("127.0.0.1", 8053)

    def test_no_web(self, load: Load) -> None:
        assert load(ZONE + '[web]\nlisten = "off"\n').web.listen is None

    def test_following_a_collector(self, load: Load) -> None:
        collector = load(ZONE + '[collector]\nconnect = "http://127.0.0.1:8053"\nstale_after = 5\n').collector
        assert (collector.connect, collector.stale_after) == ("http://127.0.0.1:8053", 5.0)

    def test_scores_of_one_s_own(self, load: Load) -> None:
        config = load(
            ZONE + '[collector]\nscore = "idle"\n[score.idle]\ncpu_idle = { weight = 60, limit = 100 }\n'
            "run_queue = { weight = 30, limit = 30.5 }\nidle_workers = { weight = 1, limit = 20, cap = true }\n"
            'mine = { weight = 2, limit = 3, better = "low" }\nload1 = { weight = 1, limit = 4, better = "high" }\n'
        )
        assert config.collector.score == "idle"
        assert config.scores == {
            "idle": {
                "cpu_idle": Term(60.0, 100.0, "high"),
                "run_queue": Term(30.0, 30.5, "low"),
                "idle_workers": Term(1.0, 20.0, "high", cap=True),
                "mine": Term(2.0, 3.0, "low"),
                "load1": Term(1.0, 4.0, "high"),
            }
        }
