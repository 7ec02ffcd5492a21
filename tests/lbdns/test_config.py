"""lbdns.toml: everything the contract names, every default, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from lbdns.config import (
    DEFAULT_NAMES,
    Config,
    CookiesConfig,
    PoolConfig,
    RateLimitConfig,
    Term,
    ZoneConfig,
    load_config,
)
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError

Load = Callable[[str], Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def read(text: str) -> Config:
        path = tmp_path / "lbdns.toml"
        path.write_text(text)
        return load_config(path)

    return read


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
ZONE = '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'
POOL = '[[pool]]\nname = "web"\nzone = "hobbit"\nmembers = ["gandalf"]\n'


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
        assert config.pools[0].coherence == 2.0
        assert config.collector.listen == contract.collector.listen
        assert config.collector.key_file is None
        assert (config.collector.stale_after, config.collector.score) == (3.0, "thesis")
        assert (config.collector.connect, config.collector.stat_file) == ("", None)
        assert config.web == contract.web
        assert config.scores == {}

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


#: What is wrong, the file, and its findings after the path; ZONE has 3 lines, POOL 4
MISTAKES: list[tuple[str, str, list[str]]] = [
    ("no zone", "", [": file: there is no [[zone]]; a zone needs a name and a file"]),
    ("unknown table", ZONE + "[sever]\nlisten = 1\n", [":4: sever: unknown key. Perhaps you meant 'server'?"]),
    (
        "unknown key in server",
        "[server]\n\nworker = 2\n" + ZONE,
        [":3: [server] worker: unknown key. Perhaps you meant 'workers'?"],
    ),
    (
        "unknown key in the second zone",
        ZONE + ZONE.replace("hobbit", "orc") + 'fil = "x"\n',
        [":7: [zone orc] fil: unknown key. Perhaps you meant 'file'?"],
    ),
    (
        "unknown key in a pool",
        ZONE + POOL + "tll = 5\n",
        [":8: [pool web] tll: unknown key. Perhaps you meant 'ttl'?"],
    ),
    (
        "unknown key in collector",
        ZONE + '[collector]\nkeyfile = "x"\n',
        [":5: [collector] keyfile: unknown key. Perhaps you meant 'key_file'?"],
    ),
    (
        "unknown key in web",
        ZONE + "[web]\nlitsen = 1\n",
        [":5: [web] litsen: unknown key. Perhaps you meant 'listen'?"],
    ),
    ("a table that is none", "server = 5\n" + ZONE, [":1: server: is not a table"]),
    ("one zone in a table", '[zone]\nname = "x"\n', [":1: zone: is not an array of tables; write [[zone]]"]),
    ("a zone without all", "[[zone]]\n", [":1: [zone 1] name: is missing", ":1: [zone 1] file: is missing"]),
    (
        "a zone twice",
        ZONE + ZONE.replace('"hobbit"', '"Hobbit."'),
        [":5: [zone Hobbit.] name: 'hobbit' is there already: a zone is served from one file"],
    ),
    ("a zone's name that is none", ZONE.replace('"hobbit"', '"-x"'), [":2: [zone -x] name: '-x' is no domain name"]),
    (
        "a zone's name that is too long",
        ZONE.replace('"hobbit"', f'"{".".join(["a" * 60] * 5)}"'),
        [f":2: [zone {'.'.join(['a' * 60] * 5)}] name: '{'.'.join(['a' * 60] * 5)}' is no domain name"],
    ),
    ("listen that is no list", "[server]\nlisten = 53\n" + ZONE, [":2: [server] listen: 53 is not a list of strings"]),
    ("nowhere to listen", "[server]\nlisten = []\n" + ZONE, [":2: [server] listen: names no address to answer on"]),
    (
        "listening on a name",
        '[server]\nlisten = ["gandalf:53"]\n' + ZONE,
        [":2: [server] listen: 'gandalf:53': listening needs an address, such as 127.0.0.1:53, not a name"],
    ),
    (
        "workers out of range",
        "[server]\nworkers = 0\n" + ZONE,
        [":2: [server] workers: 0 is not a whole number from 1 to 256"],
    ),
    (
        "two pools of one name",
        ZONE + POOL + POOL,
        [":9: [pool web] name: two pools are called 'web'; give one another name"],
    ),
    (
        "a pool without all",
        ZONE + "[[pool]]\n",
        [
            ":4: [pool 1] name: is missing",
            ":4: [pool 1] zone: is missing",
            ":4: [pool 1] members: is missing: the host names of the pool's web servers, relative to the zone",
        ],
    ),
    (
        "members that are none",
        ZONE + POOL.replace('["gandalf"]', "5"),
        [":7: [pool web] members: 5 is not a list of strings"],
    ),
    (
        "a member that is no host name",
        ZONE + POOL.replace('"gandalf"', '"gandalf.", "fro do"'),
        [
            ":7: [pool web] members: 'gandalf.' is no host name relative to the zone, such as 'gandalf'",
            ":7: [pool web] members: 'fro do' is no host name relative to the zone, such as 'gandalf'",
        ],
    ),
    (
        "a member twice",
        ZONE + POOL.replace('"gandalf"', '"frodo", "Frodo"'),
        [":7: [pool web] members: 'frodo' is there twice"],
    ),
    (
        "an unknown policy",
        ZONE + POOL + 'names = { best = "bset" }\n',
        [":8: [pool web] names: best = 'bset': no such policy. Perhaps you meant 'best'?"],
    ),
    (
        "dots without quotes",
        ZONE + POOL + 'names = { round.robin = "round_robin" }\n',
        [":8: [pool web] names: round = {'robin': 'round_robin'}: no such policy; a name with dots stands in quotes"],
    ),
    (
        "a name twice",
        ZONE + POOL + 'names = { a = "best", A = "best" }\n',
        [":8: [pool web] names: 'A' is there twice"],
    ),
    (
        "a name that is none",
        ZONE + POOL + 'names = { "a b" = "best" }\n',
        [":8: [pool web] names: 'a b' is no name relative to the zone; its apex is '@'"],
    ),
    ("no names", ZONE + POOL + "names = {}\n", [":8: [pool web] names: is empty: nobody could ask for this pool"]),
    ("names that are none", ZONE + POOL + "names = 5\n", [":8: [pool web] names: is not a table"]),
    (
        "a negative ttl",
        ZONE + POOL + "ttl = -1\n",
        [":8: [pool web] ttl: -1 is not a whole number from 0 to 2147483647"],
    ),
    (
        "an unknown form of answer",
        ZONE + POOL + 'answer = "adress"\n',
        [":8: [pool web] answer: 'adress' is not known. Perhaps you meant 'address'?"],
    ),
    (
        "min_usable over 1",
        ZONE + POOL + "min_usable = 50\n",
        [":8: [pool web] min_usable: 50 is not a number from 0 to 1"],
    ),
    (
        "coherence over a minute",
        ZONE + POOL + "coherence = 61\n",
        [":8: [pool web] coherence: 61 is not a number from 0 to 60"],
    ),
    (
        "a ramp of more than an hour",
        ZONE + POOL + "ramp_up = 3601\n",
        [":8: [pool web] ramp_up: 3601 is not a number from 0 to 3600"],
    ),
    (
        "black_hole in a word",
        ZONE + POOL + 'black_hole = "off"\n',
        [":8: [pool web] black_hole: 'off' is not true or false"],
    ),
    (
        "stale_after below an interval",
        ZONE + "[collector]\nstale_after = 0.5\n",
        [":5: [collector] stale_after: 0.5 is not a number from 1 to 1000"],
    ),
    (
        "an unknown score",
        ZONE + '[collector]\nscore = "thesiss"\n',
        [":5: [collector] score: 'thesiss' is not known. Perhaps you meant 'thesis'?"],
    ),
    (
        "a collector that is no URL",
        ZONE + '[collector]\nconnect = "127.0.0.1:8053"\n',
        [":5: [collector] connect: '127.0.0.1:8053' is no URL of a collector, such as http://127.0.0.1:8053"],
    ),
    (
        "following and listening",
        ZONE + '[collector]\nconnect = "http://x"\nlisten = ["::1"]\nkey_file = "x"\n',
        [
            ":6: [collector] listen: can't stand beside connect: the collector that is followed receives the reports",
            ":7: [collector] key_file: can't stand beside connect: the collector that is followed receives the reports",
        ],
    ),
    (
        "a collector that hears nobody",
        ZONE + "[collector]\nlisten = []\n",
        [":5: [collector] listen: names no address to receive reports on"],
    ),
    (
        "web on a name",
        ZONE + '[web]\nlisten = "of"\n',
        [":5: [web] listen: 'of': listening needs an address, such as 127.0.0.1:8053, not a name; or \"off\""],
    ),
    (
        "the built-in score",
        ZONE + "[score.thesis]\ncpu_idle = { weight = 1, limit = 1 }\n",
        [":4: [score.thesis]: this score is built in; give yours another name"],
    ),
    (
        "a score without weights",
        ZONE + "[score.mine]\ncpu_idle = { weight = 0, limit = 1 }\n",
        [":4: [score.mine]: no metric has a weight; every member would score 0"],
    ),
    (
        "a metric misspelt",
        ZONE + "[score.mine]\ncpu_ilde = { weight = 1, limit = 1 }\nrun_queue = { weight = 1, limit = 1 }\n",
        [
            ':5: [score.mine] cpu_ilde: say which way is better: better = "low" or "high". '
            "Perhaps you meant 'cpu_idle'?"
        ],
    ),
    (
        "a metric that says nothing by itself",
        ZONE + "[score.mine]\nnet_rx = { weight = 1, limit = 1 }\n",
        [':5: [score.mine] net_rx: say which way is better: better = "low" or "high"'],
    ),
    (
        "a term without its numbers",
        ZONE + "[score.mine]\ncpu_idle = { weight = 1 }\n",
        [":5: [score.mine] cpu_idle: limit is missing: cpu_idle = { weight = 20, limit = 100 }"],
    ),
    (
        "a limit of nothing",
        ZONE + "[score.mine]\ncpu_idle = { weight = 1, limit = 0 }\n",
        [":5: [score.mine] cpu_idle.limit: 0 is not a number from 1e-09 to 1e+15"],
    ),
    ("a score that is no table", ZONE + "[score]\nmine = 5\n", [":5: [score] mine: is not a table"]),
]


class TestMistakes:
    @pytest.mark.parametrize(("text", "findings"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
    def test_each_is_said_with_its_line(self, load: Load, tmp_path: Path, text: str, findings: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert list(caught.value.findings) == [f"{tmp_path}/lbdns.toml{finding}" for finding in findings]
        assert caught.value.exit_status == 2

    def test_all_of_a_file_at_once(self, load: Load) -> None:
        with pytest.raises(ConfigError) as caught:
            load("[server]\nworkers = 0\nx = 1\n" + ZONE + POOL + "ttl = -1\n[web]\nlisten = 1\n")
        assert [finding.split("lbdns.toml:")[1].split(":")[0] for finding in caught.value.findings] == [
            "2",
            "3",
            "11",
            "13",
        ]

    @pytest.mark.parametrize("workers", [2, 256])
    def test_workers(self, load: Load, workers: int) -> None:
        assert load(f"[server]\nworkers = {workers}\n" + ZONE).server.workers == workers


def forward(upstream: str, allow: str = '["10.0.0.0/8"]', listen: str = '["127.0.0.1:53", "[::1]:53"]') -> str:
    return f"[server]\nlisten = {listen}\n{ZONE}[forward]\nupstream = {upstream}\nallow = {allow}\n"


class TestForward:
    """``[forward]`` stands in line 6 of these files, upstream in 7, allow in 8."""

    def test_off_by_default(self, load: Load) -> None:
        for text in (ZONE, ZONE + "[forward]\n"):
            assert (load(text).forward.upstream, load(text).forward.allow) == ((), ())

    def test_on(self, load: Load) -> None:
        text = forward('["9.9.9.9", "192.0.2.1:5353", "[2001:db8::1]:53", "9.9.9.9"]', '["10.0.0.0/8", "fd00::1"]')
        config = load(text).forward
        assert config.upstream == (
            Endpoint("9.9.9.9", 53),
            Endpoint("192.0.2.1", 5353),
            Endpoint("2001:db8::1", 53),
        )
        assert config.allow == (ip_network("10.0.0.0/8"), ip_network("fd00::1/128"))

    @pytest.mark.parametrize(
        ("text", "findings"),
        [
            (
                forward("[]", "[]"),
                [
                    ':7: [forward] upstream: names no server to ask, such as "192.0.2.1:53"',
                    ':8: [forward] allow: names no network whose queries are relayed, such as "10.0.0.0/8"',
                ],
            ),
            (
                ZONE + '[forward]\nupstream = "192.0.2.1"\n',
                [':4: [forward] allow: names no network whose queries are relayed, such as "10.0.0.0/8"'],
            ),
            (
                forward('["192.0.2.1"]', '["0.0.0.0/0"]'),
                [
                    ":8: [forward] allow: '0.0.0.0/0' is everybody: an open resolver, which floods others on request. "
                    "Name your networks"
                ],
            ),
            (
                forward('["192.0.2.1"]', '["10.0.0.1/8"]'),
                [
                    ":8: [forward] allow: 10.0.0.1/8 has host bits set; write a network such as 10.0.0.0/8 or "
                    "2001:db8::/32, or one address"
                ],
            ),
            (
                forward('["dns.example"]'),
                [":7: [forward] upstream: 'dns.example': an upstream is an address, such as 192.0.2.1:53, not a name"],
            ),
            (
                forward('["0.0.0.0", "192.0.2.1:0", "224.0.0.251"]'),
                [
                    f":7: [forward] upstream: {text!r} is nobody's address; write one such as 192.0.2.1:53"
                    for text in ("0.0.0.0", "192.0.2.1:0", "224.0.0.251")
                ],
            ),
            (
                forward(str([f"192.0.2.{number}" for number in range(9)])),
                [":7: [forward] upstream: names 9 servers; at most 8 can be asked in time"],
            ),
            (
                forward('["192.0.2.1"]') + "alow = 1\n",
                [":9: [forward] alow: unknown key. Perhaps you meant 'allow'?"],
            ),
        ],
    )
    def test_mistakes(self, load: Load, tmp_path: Path, text: str, findings: list[str]) -> None:
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert list(caught.value.findings) == [f"{tmp_path}/lbdns.toml{finding}" for finding in findings]

    @pytest.mark.parametrize(
        ("listen", "upstream", "through"),
        [
            ('["127.0.0.1:53"]', "127.0.0.1", "127.0.0.1:53"),
            ('["[::1]:53"]', "0:0::1", "[::1]:53"),
            ('["192.0.2.1:5353"]', "192.0.2.1:5353", "192.0.2.1:5353"),
            ('["0.0.0.0:53"]', "127.0.0.9", "0.0.0.0:53"),
            ('["[::]:53"]', "::1", "[::]:53"),
        ],
    )
    def test_not_to_ourselves(self, load: Load, listen: str, upstream: str, through: str) -> None:
        with pytest.raises(ConfigError, match=r"it would ask itself for ever") as caught:
            load(forward(f'["{upstream}"]', listen=listen))
        assert f"where this server listens itself ({through})" in str(caught.value)

    @pytest.mark.parametrize(
        ("listen", "upstream"),
        [
            ('["127.0.0.1:53"]', "127.0.0.2"),
            ('["127.0.0.1:53"]', "127.0.0.1:5353"),
            ('["0.0.0.0:5300"]', "127.0.0.1"),
            ('["0.0.0.0:53"]', "::1"),
            ('["0.0.0.0:53"]', "192.0.2.1"),
        ],
    )
    def test_to_neighbours(self, load: Load, listen: str, upstream: str) -> None:
        assert len(load(forward(f'["{upstream}"]', listen=listen)).forward.upstream) == 1


LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class TestWhatClientsSee:
    """``[server]`` payload, identity and version, ``[cookies]``, ``[rate_limit]``."""

    def test_defaults(self, load: Load) -> None:
        for text in (ZONE, ZONE + "[cookies]\n[rate_limit]\n"):
            config = load(text)
            assert (config.server.payload, config.server.identity, config.server.version) == (1232, "", "")
            assert config.cookies == CookiesConfig(None, 512)
            assert config.rate_limit == RateLimitConfig(1000, 2, 24, 56, LOOPBACK)

    def test_all_of_it(self, load: Load, tmp_path: Path) -> None:
        config = load(
            '[server]\npayload = 512\nidentity = "ns1 ÄÖ"\nversion = "1"\n'
            + ZONE
            + '[cookies]\nsecret_file = "cookie.secret"\nudp_without = 1232\n[rate_limit]\nresponses_per_second = 0\n'
            'slip = 0\nipv4_prefix = 32\nipv6_prefix = 128\nexempt = ["10.0.0.0/8", "2001:db8::1"]\n'
        )
        assert (config.server.payload, config.server.identity, config.server.version) == (512, "ns1 ÄÖ", "1")
        assert config.cookies == CookiesConfig(tmp_path / "cookie.secret", 1232)
        exempt = (ip_network("10.0.0.0/8"), ip_network("2001:db8::1/128"))
        assert config.rate_limit == RateLimitConfig(0, 0, 32, 128, exempt)

    def test_nobody_exempt(self, load: Load) -> None:
        assert load(ZONE + "[rate_limit]\nexempt = []\n").rate_limit.exempt == ()

    @pytest.mark.parametrize(
        ("text", "finding"),
        [
            ("[server]\npayload = 511\n", ":5: [server] payload: 511 is not a whole number from 512 to 1232"),
            ("[server]\npayload = 4096\n", ":5: [server] payload: 4096 is not a whole number from 512 to 1232"),
            (f'[server]\nidentity = "{"x" * 256}"\n', ":5: [server] identity: is longer than 255 bytes"),
            (f'[server]\nversion = "{"Ä" * 128}"\n', ":5: [server] version: is longer than 255 bytes"),
            (
                "[cookies]\nudp_without = 500\n",
                ":5: [cookies] udp_without: 500 is not a whole number from 512 to 1232",
            ),
            ("[cookies]\nsecret = 1\n", ":5: [cookies] secret: unknown key. Perhaps you meant 'secret_file'?"),
            (
                "[rate_limit]\nresponses_per_second = -1\n",
                ":5: [rate_limit] responses_per_second: -1 is not a whole number from 0 to 1000000000",
            ),
            ("[rate_limit]\nslip = 11\n", ":5: [rate_limit] slip: 11 is not a whole number from 0 to 10"),
            ("[rate_limit]\nipv4_prefix = 33\n", ":5: [rate_limit] ipv4_prefix: 33 is not a whole number from 1 to 32"),
            ("[rate_limit]\nipv6_prefix = 0\n", ":5: [rate_limit] ipv6_prefix: 0 is not a whole number from 1 to 128"),
            (
                '[rate_limit]\nexempt = ["10.0.0.1/8"]\n',
                ":5: [rate_limit] exempt: 10.0.0.1/8 has host bits set; write a network such as 10.0.0.0/8 or "
                "2001:db8::/32, or one address",
            ),
            ("[rate_limit]\nexemt = []\n", ":5: [rate_limit] exemt: unknown key. Perhaps you meant 'exempt'?"),
        ],
    )
    def test_mistakes(self, load: Load, tmp_path: Path, text: str, finding: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load(ZONE + text)
        assert list(caught.value.findings) == [f"{tmp_path}/lbdns.toml{finding}"]
