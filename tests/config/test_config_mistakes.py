"""Tests of lbdns.toml: every error, with its line number."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from tests.config.config_files import POOL, ZONE, Load

#: What is wrong, the file, and its findings after the path; ZONE has 3 lines, POOL 4
MISTAKES: list[tuple[str, str, list[str]]] = [
    ("no zone", "", [": file: must contain at least one [[zone]] with a name and a file"]),
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
    ("unknown key in a pool", ZONE + POOL + "tll = 5\n", [":8: [pool web] tll: unknown key. Perhaps you meant 'ttl'?"]),
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
    ("a table that is none", "server = 5\n" + ZONE, [":1: server: must be a table"]),
    ("one zone in a table", '[zone]\nname = "x"\n', [":1: zone: must be an array of tables, written as [[zone]]"]),
    ("a zone without all", "[[zone]]\n", [":1: [zone 1] name: is missing", ":1: [zone 1] file: is missing"]),
    (
        "a zone twice",
        ZONE + ZONE.replace('"hobbit"', '"Hobbit."'),
        [":5: [zone Hobbit.] name: two zones have the name 'hobbit'; a zone can have only one file"],
    ),
    (
        "a zone's name that is none",
        ZONE.replace('"hobbit"', '"-x"'),
        [":2: [zone -x] name: '-x' is not a valid domain name"],
    ),
    (
        "a zone's name that is too long",
        ZONE.replace('"hobbit"', f'"{".".join(["a" * 60] * 5)}"'),
        [f":2: [zone {'.'.join(['a' * 60] * 5)}] name: '{'.'.join(['a' * 60] * 5)}' is not a valid domain name"],
    ),
    (
        "listen that is no list",
        "[server]\nlisten = 53\n" + ZONE,
        [":2: [server] listen: must be a list of strings, not 53"],
    ),
    (
        "nowhere to listen",
        "[server]\nlisten = []\n" + ZONE,
        [":2: [server] listen: must contain at least one address at which to answer queries"],
    ),
    (
        "listening on a name",
        '[server]\nlisten = ["gandalf:53"]\n' + ZONE,
        [
            ":2: [server] listen: 'gandalf:53': the address to listen on must be an IP address, such as 127.0.0.1:53, "
            "not a name"
        ],
    ),
    (
        "workers out of range",
        "[server]\nworkers = 0\n" + ZONE,
        [":2: [server] workers: must be a whole number from 1 to 256, not 0"],
    ),
    (
        "two pools of one name",
        ZONE + POOL + POOL,
        [":9: [pool web] name: two pools have the name 'web'; rename one of them"],
    ),
    (
        "a pool without all",
        ZONE + "[[pool]]\n",
        [
            ":4: [pool 1] name: is missing",
            ":4: [pool 1] zone: is missing",
            ":4: [pool 1] members: is missing; list the host names of the web servers, relative to the zone",
        ],
    ),
    (
        "members that are none",
        ZONE + POOL.replace('["gandalf"]', "5"),
        [":7: [pool web] members: must be a list of strings, not 5"],
    ),
    (
        "a member that is no host name",
        ZONE + POOL.replace('"gandalf"', '"gandalf.", "fro do"'),
        [
            ":7: [pool web] members: 'gandalf.' is not a host name relative to the zone; write, for example, 'gandalf'",
            ":7: [pool web] members: 'fro do' is not a host name relative to the zone; write, for example, 'gandalf'",
        ],
    ),
    (
        "a member twice",
        ZONE + POOL.replace('"gandalf"', '"frodo", "Frodo"'),
        [":7: [pool web] members: 'frodo' appears twice"],
    ),
    (
        "an unknown policy",
        ZONE + POOL + 'names = { best = "bset" }\n',
        [":8: [pool web] names: best: unknown policy 'bset'. Perhaps you meant 'best'?"],
    ),
    (
        "dots without quotes",
        ZONE + POOL + 'names = { round.robin = "round_robin" }\n',
        [":8: [pool web] names: round: unknown policy {'robin': 'round_robin'}; quote any name that contains dots"],
    ),
    ("a name twice", ZONE + POOL + 'names = { a = "best", A = "best" }\n', [":8: [pool web] names: 'A' appears twice"]),
    (
        "a name that is none",
        ZONE + POOL + 'names = { "a b" = "best" }\n',
        [":8: [pool web] names: 'a b' is not a valid name relative to the zone; write '@' for the zone's apex"],
    ),
    (
        "no names",
        ZONE + POOL + "names = {}\n",
        [":8: [pool web] names: is empty, so no member of this pool could be selected; add a name with a policy"],
    ),
    ("names that are none", ZONE + POOL + "names = 5\n", [":8: [pool web] names: must be a table"]),
    (
        "a negative ttl",
        ZONE + POOL + "ttl = -1\n",
        [":8: [pool web] ttl: must be a whole number from 0 to 2147483647, not -1"],
    ),
    (
        "an unknown form of answer",
        ZONE + POOL + 'answer = "adress"\n',
        [":8: [pool web] answer: unknown value 'adress'. Perhaps you meant 'address'?"],
    ),
    (
        "an answer of no member",
        ZONE + POOL + 'answer = "address"\nanswers = 0\n',
        [":9: [pool web] answers: must be a whole number from 1 to 16, not 0"],
    ),
    (
        "more members than fit into an answer",
        ZONE + POOL + 'answer = "address"\nanswers = 17\n',
        [":9: [pool web] answers: must be a whole number from 1 to 16, not 17"],
    ),
    (
        "a CNAME for several members",
        ZONE + POOL + "answers = 2\n",
        [
            ":8: [pool web] answers: must be 1, not 2, because 'best' is answered with a CNAME, which names one "
            'member; set answer = "address" to name several members'
        ],
    ),
    (
        "a CNAME for several members, beside the apex",
        ZONE + POOL + 'answers = 2\nnames = { "@" = "best", www = "weighted" }\n',
        [
            ":8: [pool web] answers: must be 1, not 2, because 'www' is answered with a CNAME, which names one "
            'member; set answer = "address" to name several members'
        ],
    ),
    (
        "an unknown form of answer, for several members",
        ZONE + POOL + 'answers = 2\nanswer = "adress"\n',
        [":9: [pool web] answer: unknown value 'adress'. Perhaps you meant 'address'?"],
    ),
    (
        "min_usable over 1",
        ZONE + POOL + "min_usable = 50\n",
        [":8: [pool web] min_usable: must be a number from 0 to 1, not 50"],
    ),
    (
        "coherence over a minute",
        ZONE + POOL + "coherence = 61\n",
        [":8: [pool web] coherence: must be a number from 0 to 60, not 61"],
    ),
    (
        "a ramp of more than an hour",
        ZONE + POOL + "ramp_up = 3601\n",
        [":8: [pool web] ramp_up: must be a number from 0 to 3600, not 3601"],
    ),
    (
        "black_hole in a word",
        ZONE + POOL + 'black_hole = "off"\n',
        [":8: [pool web] black_hole: must be true or false, not 'off'"],
    ),
    (
        "stale_after below an interval",
        ZONE + "[collector]\nstale_after = 0.5\n",
        [":5: [collector] stale_after: must be a number from 1 to 1000, not 0.5"],
    ),
    (
        "an unknown score",
        ZONE + '[collector]\nscore = "thesiss"\n',
        [":5: [collector] score: unknown value 'thesiss'. Perhaps you meant 'thesis'?"],
    ),
    (
        "a collector that is no URL",
        ZONE + '[collector]\nconnect = "127.0.0.1:8053"\n',
        [
            ":5: [collector] connect: must be the URL of a collector, not '127.0.0.1:8053'; write http://HOST:PORT, "
            'or "bus" to follow the collectors on the bus'
        ],
    ),
    (
        "following and listening",
        ZONE + '[collector]\nconnect = "http://x"\nlisten = ["::1"]\nkey_file = "x"\n',
        [
            ":6: [collector] listen: must not be set together with connect, because the followed "
            "collector receives the reports",
            ":7: [collector] key_file: must not be set together with connect, because the followed "
            "collector receives the reports",
        ],
    ),
    (
        "a collector that hears nobody",
        ZONE + "[collector]\nlisten = []\n",
        [":5: [collector] listen: must contain at least one address at which to receive reports"],
    ),
    (
        "web on a name",
        ZONE + '[web]\nlisten = "of"\n',
        [
            ":5: [web] listen: 'of': the address to listen on must be an IP address, such as 127.0.0.1:8053, "
            'not a name; or write "off"'
        ],
    ),
    (
        "the built-in score",
        ZONE + "[score.thesis]\ncpu_idle = { weight = 1, limit = 1 }\n",
        [":4: [score.thesis]: is the name of a built-in score; choose another name"],
    ),
    (
        "a score without weights",
        ZONE + "[score.mine]\ncpu_idle = { weight = 0, limit = 1 }\n",
        [":4: [score.mine]: has no metric with a weight above 0, so every member would score 0"],
    ),
    (
        "a metric misspelt",
        ZONE + "[score.mine]\ncpu_ilde = { weight = 1, limit = 1 }\nrun_queue = { weight = 1, limit = 1 }\n",
        [':5: [score.mine] cpu_ilde: better must be "low" or "high". Perhaps you meant \'cpu_idle\'?'],
    ),
    (
        "a metric that says nothing by itself",
        ZONE + "[score.mine]\nnet_rx = { weight = 1, limit = 1 }\n",
        [':5: [score.mine] net_rx: better must be "low" or "high"'],
    ),
    (
        "a term without its numbers",
        ZONE + "[score.mine]\ncpu_idle = { weight = 1 }\n",
        [":5: [score.mine] cpu_idle: limit is missing; write cpu_idle = { weight = 20, limit = 100 }"],
    ),
    (
        "a limit of nothing",
        ZONE + "[score.mine]\ncpu_idle = { weight = 1, limit = 0 }\n",
        [":5: [score.mine] cpu_idle.limit: must be a number from 1e-09 to 1e+15, not 0"],
    ),
    ("a score that is no table", ZONE + "[score]\nmine = 5\n", [":5: [score] mine: must be a table"]),
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


@pytest.mark.parametrize(
    ("web", "message"),
    [
        ('tls_cert = "x"', "[web] tls_key: is missing; tls_cert and tls_key must be set together"),
        ('tls_key = "x"', "[web] tls_cert: is missing; tls_cert and tls_key must be set together"),
        ("steer = true", "[web] steer: requires credentials; set steer_token_file, token_file, or"),
        ('steer_token_file = "x"', "[web] steer_token_file: has no effect without steer = true"),
        (
            'steer = true\ntoken_file = "x"\nlisten = "0.0.0.0:8053"\nallow = ["10.0.0.0/8"]',
            "[web] steer: requires HTTPS, because other machines can reach 0.0.0.0:8053; set tls_cert and tls_key",
        ),
    ],
)
def test_certificates_and_steering(load: Load, web: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"{ZONE}[web]\n{web}\n")
    assert message in str(caught.value)
    assert len(caught.value.findings) == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('stat_format = "1999"', "[collector] stat_format: has no effect without stat_file, the path of the file"),
        (
            'stat_file = "s"\nstat_format = "199"',
            "[collector] stat_format: unknown value '199'. Perhaps you meant '1999'?",
        ),
        ('stat_file = "s"\nstat_format = 1999', "[collector] stat_format: must be a string, not 1999"),
    ],
)
def test_the_format_of_the_stat_file(load: Load, lines: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"{ZONE}[collector]\n{lines}\n")
    assert message in str(caught.value)
    assert len(caught.value.findings) == 1


def test_steering_is_permitted_on_the_loopback_or_over_https(load: Load) -> None:
    for web in (
        'token_file = "x"',
        'steer_token_file = "x"\nlisten = "[::1]:8053"',
        'user = "sam"\npassword_file = "x"\nlisten = "0.0.0.0"\nallow = ["10.0.0.0/8"]\ntls_cert = "c"\ntls_key = "k"',
    ):
        assert load(f"{ZONE}[web]\nsteer = true\n{web}\n").web.steer


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("127.0.0.1:8054", "it must begin with http:// or https://"),
        ("localhost", "it must begin with http:// or https://"),
        ("ftp://127.0.0.1", "it must begin with http:// or https://"),
        ("http://", "it has no host"),
        ("http://:8054", "it has no host"),
        ("http://127.0.0.300", "'127.0.0.300' is not an address or a host name: the number 300 is greater than 255"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://-x", "'-x' is not an address or a host name: names consist of letters, digits, '-' and '.'"),
        ("http://127.0.0.1:80540", "Port out of range 0-65535"),
        ("http://127.0.0.1:x", "Port could not be cast to integer value as 'x'"),
        ("http://127.0.0.1:0", "the port must be a number from 1 to 65535"),
        ("http://sam:secret@127.0.0.1", "it must not contain a user name or a password"),
        ("http://127.0.0.1:8054/api/v1/scaler", "it must end after the host and the port"),
        ("http://127.0.0.1:8054?", "it must end after the host and the port"),
        ("http://127.0.0.1:8054/#x", "it must end after the host and the port"),
        ("http://127.0.0.1 ", "it contains spaces or special characters"),
        ("http://sc\u00e4ler", "it contains spaces or special characters"),
    ],
)
def test_urls_that_are_not_those_of_a_scaler(load: Load, url: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f'{ZONE}[web]\nscaler = "{url}"\n')
    (finding,) = caught.value.findings
    what = f":5: [web] scaler: {url!r} is not the URL of a scaler: {fault}; write, for example, http://127.0.0.1:8054"
    assert str(finding).endswith(what)


def test_the_url_of_a_scaler(load: Load) -> None:
    assert load(ZONE).web.scaler == ""
    assert load(f'{ZONE}[web]\nscaler = ""\n').web.scaler == ""
    for url in ("http://127.0.0.1:8054", "https://scaler.example.com", "http://[::1]:8054", "HTTP://localhost"):
        assert load(f'{ZONE}[web]\nscaler = "{url}/"\n').web.scaler == url
    with pytest.raises(ConfigError, match=r"\[web\] scaler: must be a string, not 8054"):
        load(f"{ZONE}[web]\nscaler = 8054\n")
