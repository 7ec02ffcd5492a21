"""Tests of ``lbdns check``: the summary of a valid configuration, and all findings in an invalid configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns_shared.keys import new_master_key
from tests.config import config_files
from tests.mmdb_files import database, place

ROOT = Path(__file__).parents[2]
ZONE = """\
$TTL 300
@ SOA ns hostmaster 42 3600 900 604800 60
@ NS ns
ns A 127.0.0.1
gandalf A 192.0.2.3
gandalf AAAA 2001:db8::3
frodo A 192.0.2.2
"""
CONFIG = config_files.ZONE + config_files.pool_table("gandalf", "frodo", more="ttl = 5")


def check(
    folder: Path, capsys: pytest.CaptureFixture[str], config: str = CONFIG, zone: str = ZONE
) -> tuple[int, list[str], list[str]]:
    """Run ``lbdns check``; return the exit status, the output lines and the error lines."""
    (folder / "hobbit.zone").write_text(zone)
    (folder / "lbdns.toml").write_text(config)
    status = run(lbdns, "lbdns", ["check", "-c", str(folder / "lbdns.toml")])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err.splitlines()


def test_a_summary_of_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lbdns.answering.plane.AVAILABLE", True)
    assert check(tmp_path, capsys) == (
        0,
        [
            f"{tmp_path}/lbdns.toml: good",
            f"zone hobbit: serial 42, 4 names, 6 records, from {tmp_path}/hobbit.zone",
            'pool web in zone hobbit: TTL 5, answer = "cname"',
            "  name    best.hobbit         best",
            "  name    round.robin.hobbit  round_robin",
            "  name    weighted.hobbit     weighted",
            "  member  gandalf.hobbit      192.0.2.3 2001:db8::3",
            "  member  frodo.hobbit        192.0.2.2",
            "DNS on 0.0.0.0:53, [::]:53",
            "plane: native",
            "reports: on 0.0.0.0:7777, score headroom; no key file: reports must come from the member's own address",
            "HTTP on 127.0.0.1:8053",
        ],
        [],
    )


def test_answers_in_the_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lbdns.server.xdp.interface_checks.program_object", lambda: None)
    status, out, _ = check(tmp_path, capsys, f'[server]\nxdp = ["lo", "none0"]\n{CONFIG}')
    assert not [line for line in out if line.startswith("in the kernel")]
    begin = f"  {tmp_path}/lbdns.toml: [server] xdp: "
    assert [line.removeprefix(begin) for line in out if line.startswith(begin)] == [
        "lo: lo is the loopback interface, where answers in the kernel are slower than those of sockets, "
        "so the sockets answer instead",
        "none0: there is no such network interface; 'ip link' lists them, so the sockets answer instead",
    ]
    assert status == 0
    monkeypatch.setattr("lbdns.commands.check.unusable_interfaces", lambda config: {"lo": "too slow"})
    _, out, _ = check(tmp_path, capsys, f'[server]\nxdp = ["lo", "eth0"]\n{CONFIG}')
    at = out.index("in the kernel on eth0: common queries")
    assert out[at + 1] == "  not for pool web: address family affinity is on; set coherence = 0"


def key_file(folder: Path, mode: int, *lines: str) -> None:
    path = folder / "report.key"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(mode)


WITH_KEYS = CONFIG + '[collector]\nkey_file = "report.key"\n[web]\nlisten = "off"\n'


def test_key_file_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file(tmp_path, 0o644, new_master_key().line(), new_master_key().line())
    config = f'[server]\nuser = "nobody-of-this-name"\n{WITH_KEYS}'
    status, out, err = check(tmp_path, capsys, config, ZONE + "x.orc. A 192.0.2.1\n")
    assert (status, err) == (0, [])
    assert f"reports: on 0.0.0.0:7777, score headroom; signed, 2 master keys in {tmp_path}/report.key" in out
    assert "HTTP: off" in out
    at = out.index("warnings: 3")
    assert out[at + 1 :] == [
        f"  {tmp_path}/hobbit.zone:8: x.orc.: lies outside the zone and is ignored",
        f"  {tmp_path}/report.key: key file: mode 0644 lets other users read it; run 'chmod 600 {tmp_path}/report.key'",
        f"  {tmp_path}/lbdns.toml: [server] user: unknown user 'nobody-of-this-name', so the server will not start",
    ]


def test_one_private_key_and_a_known_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file(tmp_path, 0o600, new_master_key().line())
    status, out, _ = check(tmp_path, capsys, f'[server]\nuser = "root"\n{WITH_KEYS}')
    assert status == 0
    assert f"reports: on 0.0.0.0:7777, score headroom; signed, 1 master key in {tmp_path}/report.key" in out
    assert not any(line.startswith("warnings") for line in out)


@pytest.mark.parametrize(
    ("pools", "where"), [("", ", and on the bus"), ('pools = ["web", "-"]', ", and on the bus those of web, -")]
)
def test_reports_on_a_bus(tmp_path: Path, capsys: pytest.CaptureFixture[str], pools: str, where: str) -> None:
    key_file(tmp_path, 0o600, new_master_key().line())
    status, out, _ = check(tmp_path, capsys, f'{WITH_KEYS}[bus]\nurl = ["nats://192.0.2.1"]\n{pools}\n')
    assert status == 0
    assert f"reports: on 0.0.0.0:7777{where}, score headroom; signed, 1 master key in {tmp_path}/report.key" in out


def test_following_another_collector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = check(tmp_path, capsys, CONFIG + '[collector]\nconnect = "http://192.0.2.1:8053"\n')
    assert "reports: from the collector at http://192.0.2.1:8053" in out


def test_secondaries_forwarding_and_cookie_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cookie.secret").write_text("00" * 16 + "\n")
    (tmp_path / "cookie.secret").chmod(0o600)
    text = CONFIG.replace('file = "hobbit.zone"', 'file = "hobbit.zone"\ntransfer = ["10.0.0.2"]')
    text += '[cookies]\nsecret_file = "cookie.secret"\n[forward]\nupstream = ["192.0.2.1"]\nallow = ["10.0.0.0/8"]\n'
    status, out, err = check(tmp_path, capsys, text)
    assert (status, err) == (0, [])
    assert "forwarding to 192.0.2.1:53 for 10.0.0.0/8" in out
    (zone,) = (line for line in out if line.startswith("zone hobbit: "))
    assert zone.endswith("; secondaries may transfer it")
    (tmp_path / "cookie.secret").write_text("zz\n")
    status, _, err = check(tmp_path, capsys, text)
    assert status == 2
    assert err[0].startswith(f"{tmp_path}/cookie.secret:1: ")


def test_passwords_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("web.password", "hobbits\n"), ("web.token", "abc\n"), ("far.token", "def\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    text = CONFIG + '[web]\nuser = "ann"\npassword_file = "web.password"\ntoken_file = "web.token"\n'
    text += '[collector]\nconnect = "http://192.0.2.1:8053"\nconnect_token_file = "far.token"\n'
    assert check(tmp_path, capsys, text)[0] == 0
    for name, what in (("web.password", "[web] password_file"), ("far.token", "[collector] connect_token_file")):
        (tmp_path / name).write_text("")
        status, _, err = check(tmp_path, capsys, text)
        assert status == 2
        assert any(line.startswith(f"{tmp_path}/{name}: {what}: the file is empty") for line in err)


def test_what_this_machine_lacks_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lbdns.answering.plane.AVAILABLE", False)
    status, out, _ = check(tmp_path, capsys, f'[server]\nplane = "native"\n{CONFIG}')
    assert status == 0
    assert (
        f"  {tmp_path}/lbdns.toml: [server] plane: the native extension is not installed, so the server will not start"
        in out
    )
    assert not any(line.startswith("plane: ") for line in out)


@pytest.mark.parametrize(
    ("configured", "available", "stale", "line"),
    [
        ("auto", True, False, "plane: native"),
        ("native", True, False, "plane: native"),
        ("auto", False, False, "plane: Python, because the native extension is not installed"),
        ("auto", False, True, "plane: Python, because the native extension was built for another version of lbdns"),
        ("python", True, False, 'plane: Python, because [server] plane is "python"'),
    ],
)
def test_the_plane(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    configured: str,
    available: bool,
    stale: bool,
    line: str,
) -> None:
    monkeypatch.setattr("lbdns.answering.plane.AVAILABLE", available)
    monkeypatch.setattr("lbdns.answering.plane.STALE", stale)
    status, out, _ = check(tmp_path, capsys, f'[server]\nplane = "{configured}"\n{CONFIG}')
    assert (status, [each for each in out if each.startswith("plane: ")]) == (0, [line])


def test_the_root_zone_has_a_name_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = check(tmp_path, capsys, CONFIG.replace('"hobbit"', '"."'))
    assert out[1].startswith("zone .: serial 42")
    assert out[2].startswith("pool web in zone .: ")


def test_every_error_of_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file(tmp_path, 0o600, "maaster x")
    status, out, err = check(tmp_path, capsys, WITH_KEYS, ZONE + "frodo A 1.2.3\n")
    assert (status, out) == (2, [])
    messages = [line for line in err if not re.match(r"[ \d]{6} \|", line)]
    assert [line.split(": ")[0] for line in messages] == [f"{tmp_path}/hobbit.zone:8", f"{tmp_path}/report.key:1"]


@pytest.mark.parametrize(
    ("config", "zone", "about"),
    [
        (CONFIG + "[sever]\n", ZONE, "lbdns.toml:9: sever: unknown key. Perhaps you meant 'server'?"),
        (CONFIG.replace('"frodo"', '"sauron"'), ZONE, "'sauron' has no address in zone hobbit"),
        (WITH_KEYS, ZONE, "report.key: cannot read the key file: No such file or directory"),
        (CONFIG, "", "the file must have an SOA record"),
        ("x = ", ZONE, "lbdns.toml: TOML: Invalid value"),
    ],
)
def test_errors_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, zone: str, about: str
) -> None:
    status, out, err = check(tmp_path, capsys, config, zone)
    assert (status, out) == (2, [])
    assert about in err[0]


def test_the_place_of_each_error_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIG.replace('["gandalf", "frodo"]', '[\n  "gandalf",\n  "frdo",\n]')
    status, _, err = check(tmp_path, capsys, config, ZONE.replace("192.0.2.2", "192.0.2.2\nsam A 192.0.2.20"))
    assert status == 2
    assert err == [
        f"{tmp_path}/lbdns.toml:9: [pool web] members: 'frdo' has no address in zone hobbit; add an A or AAAA record. "
        "Perhaps you meant 'frodo'?",
        '     9 |   "frdo",',
        "       |    ^^^^",
    ]
    _, _, err = check(tmp_path, capsys, CONFIG, ZONE.replace("192.0.2.2", "192.0.2.300"))
    assert err == [
        f"{tmp_path}/hobbit.zone:7: zone hobbit: invalid IP address: the number 300 is greater than 255, "
        "near '192.0.2.300'",
        "     7 | frodo A 192.0.2.300",
        "       |         ^^^^^^^^^^^",
    ]


def test_a_line_with_a_secret_is_not_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file(tmp_path, 0o600, "master deadbeef")
    status, _, err = check(tmp_path, capsys, WITH_KEYS + '[[key]]\nname = "x"\nsecret = "hushhush!"\n')
    assert status == 2
    assert "hushhush" not in "\n".join(line for line in err if " | " in line)
    status, _, err = check(tmp_path, capsys, WITH_KEYS)
    assert (status, [line for line in err if " | " in line]) == (2, [])


@pytest.mark.parametrize("private", ["lbdns.toml", "hobbit.zone", "hosts"])
def test_a_line_of_a_private_file_is_not_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], private: str
) -> None:
    (tmp_path / "hosts").write_text("frodo A 192.0.2.300\n" if private == "hosts" else "")
    zone = ZONE.replace("192.0.2.2", "192.0.2.300") if private == "hobbit.zone" else ZONE
    config = CONFIG.replace("frodo", "frdo") if private == "lbdns.toml" else CONFIG
    check(tmp_path, capsys, config, zone + "$INCLUDE hosts\n")
    _, _, err = check(tmp_path, capsys, config, zone + "$INCLUDE hosts\n")
    assert [line for line in err if " | " in line] != []
    (tmp_path / private).chmod(0o640)
    status, _, err = check(tmp_path, capsys, config, zone + "$INCLUDE hosts\n")
    assert (status, [line for line in err if " | " in line]) == (2, [])
    assert err[0].startswith(f"{tmp_path}/{private}:")


@pytest.mark.parametrize("header", ["[[key]]", "[[ key ]]", '[["key"]]'])
def test_no_line_of_a_key_table_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str], header: str) -> None:
    config = f'{CONFIG}{header}\nname = "x"\nsecrte = "hushhush!"\n[wbe]\nlisten = "off"\n'
    _, _, err = check(tmp_path, capsys, config)
    assert "hushhush" not in "\n".join(err)
    assert any(line.endswith("| [wbe]") for line in err)
    _, _, err = check(tmp_path, capsys, f'{CONFIG}{header}\nname = "x"\nsecret = "hushhush!" x\n')
    assert (len(err), "hushhush" in err[0]) == (1, False)


def test_errors_of_all_files_although_the_configuration_has_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = f"[server]\nworkres = 2\n{CONFIG.replace('frodo', 'frdo')}[cookies]\nlifetme = 1\n"
    config += '[[zone]]\nname = "elf"\nfile = "elf.zone"\n'
    (tmp_path / "elf.zone").write_text(ZONE + "x A 1\n")
    _, _, err = check(tmp_path, capsys, config)
    places = [line.partition(": ")[0].removeprefix(f"{tmp_path}/") for line in err if " | " not in line]
    lines = config.splitlines()
    expected = [2, next(at for at, line in enumerate(lines, 1) if "frdo" in line), lines.index("lifetme = 1") + 1]
    assert places == [*(f"lbdns.toml:{at}" for at in expected), "elf.zone:8"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "hobbit"', 'name = "hob bit"'),
        ('file = "hobbit.zone"', "file = 3"),
        ('members = ["gandalf", "frodo"]', 'members = ["gandalf", "!"]'),
        ('zone = "hobbit"', "zone = 3"),
    ],
)
def test_an_error_of_the_configuration_has_no_consequences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    assert old in CONFIG
    status, _, err = check(tmp_path, capsys, CONFIG.replace(old, new))
    assert status == 2
    assert len([line for line in err if " | " not in line]) == 1, err


def test_an_unknown_command_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lbdns, "lbdns", ["stauts"]) == 2
    assert "unknown command 'stauts'. Perhaps you meant 'status'?" in capsys.readouterr().err


def test_a_key_file_with_agents_keys_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    master = tmp_path / "master.key"
    master.write_text(new_master_key().line())
    master.chmod(0o600)
    assert run(lbdns, "lbdns", ["keygen", "--agent", "gandalf", "--master", str(master)]) == 0
    key_file(tmp_path, 0o600, capsys.readouterr().out)
    status, _, err = check(tmp_path, capsys, WITH_KEYS)
    assert status == 2
    (line,) = err
    assert line.startswith(f"{tmp_path}/report.key: the key file contains no master key to verify reports;")


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lbdns, "lbdns", ["check", "-c", "/nonexistent/lbdns.toml"]) == 2
    assert capsys.readouterr().err == (
        "/nonexistent/lbdns.toml: there is no such file; specify a configuration with -c FILE or LBDNS_CONFIG\n"
    )


class TestTheZonesFolder:
    """The files in zones/ are examples to copy, so they must be valid."""

    @pytest.mark.parametrize("folder", [".", "..", "zones"])
    def test_it_is_good_from_wherever_it_is_read(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: str
    ) -> None:
        monkeypatch.chdir(ROOT / folder)
        path = {".": "zones/lbdns.toml", "..": f"{ROOT.name}/zones/lbdns.toml", "zones": "lbdns.toml"}[folder]
        assert run(lbdns, "lbdns", ["check", "-c", path]) == 0
        out = capsys.readouterr().out
        assert f"{path}: good" in out
        assert "warnings" not in out
        for line in ("bilbo.hobbit        127.0.0.16", "gandalf.hobbit      127.0.0.18 ::1"):
            assert f"member  {line}\n" in out
        assert "zone 0.0.127.in-addr.arpa: serial" in out

    def test_the_defaults_it_names_are_the_defaults(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Enabling the commented-out options must not change the summary."""
        text = (ROOT / "zones" / "lbdns.toml").read_text()
        for name in ("hobbit.zone", "127.0.0.rev"):
            (tmp_path / name).write_bytes((ROOT / "zones" / name).read_bytes())
        before = check_text(tmp_path, text, capsys)
        lines, taken = [], 0
        for line in text.splitlines():
            option = line.removeprefix("# ")
            is_option = line.startswith("# ") and " = " in option and option.split(" = ")[0].isidentifier()
            takes = is_option and "(not the default)" not in line and "my_own_figure" not in line
            lines.append(option if takes else line)
            taken += takes
        assert taken >= 8
        assert check_text(tmp_path, "\n".join(lines), capsys) == before

    def test_every_option_is_in_it(self) -> None:
        text = (ROOT / "zones" / "lbdns.toml").read_text()
        for option in (
            *("listen", "workers", "user", "state_dir", "control", "name", "file", "zone", "members", "names", "ttl"),
            *("answer", "min_usable", "key_file", "stale_after", "score", "connect", "stat_file"),
            *("ramp_up", "black_hole", "allow", "password_file", "token_file", "max_member_series"),
            *("on", "keep_raw", "keep_10s", "keep_1min", "sample"),
        ):
            assert f"\n{option} = " in text or f"\n# {option} = " in text, option


def check_text(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    (folder / "lbdns.toml").write_text(text)
    assert run(lbdns, "lbdns", ["check", "-c", str(folder / "lbdns.toml")]) == 0
    return capsys.readouterr().out


def test_the_order_of_a_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "places.mmdb").write_bytes(database({"10.0.0.0/8": place("EU", "FR")}, "Test-City"))
    sites = '[sites]\norder = ["ber", "par"]\ndatabase = "places.mmdb"\ncountries = { FR = ["par"] }\n'
    more = 'sites = { ber = ["gandalf"], par = ["frodo"] }'
    pool = config_files.pool_table("gandalf", "frodo", more=more)
    _, lines, _ = check(tmp_path, capsys, config_files.ZONE + sites + pool)
    assert "  orders  ber, par; par, ber" in lines
    assert f"places of clients: Test-City of 2023-11-14, from {tmp_path}/places.mmdb" in lines
    arguments = ["check", "-c", str(tmp_path / "lbdns.toml"), "--client", "10.2.3.4", "--client", "2001:db8::1"]
    assert run(lbdns, "lbdns", arguments) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "client 10.2.3.4: pool web: par, ber, like all clients in 10.0.0.0/8",
        "client 2001:db8::1: pool web: ber, par, like all clients in 2000::/3",
    ]
    assert run(lbdns, "lbdns", ["check", "--client", "somewhere"]) == 2
    assert "'somewhere' does not appear to be an IPv4 or IPv6 address" in capsys.readouterr().err
