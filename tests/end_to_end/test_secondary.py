"""Tests with real secondaries: BIND, Knot and NSD copy a zone, receive NOTIFY, and answer with all members of a pool.

With dig, kdig and drill, the tests also request transfers that the server must refuse.
"""

from __future__ import annotations

import base64
import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rdatatype
import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.process import PATIENCE, Program, running
from tests.needs import needs, program

SECRET = base64.b64encode(bytes(range(32))).decode()
MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18", "::18"]}
ALL_A = {"127.0.0.16", "127.0.0.17", "127.0.0.18"}
SOON = PATIENCE  # s from a reload to a new copy; measured are some tenths, the refresh time of the SOA is an hour


def new_primary(folder: Path, transfer: Sequence[str], notify: Sequence[str] = (), workers: int = 1) -> Site:
    """Return a farm with one key. ``transfer`` lists the permitted clients, ``notify`` the recipients of NOTIFY."""
    site = new_site(folder, MEMBERS)
    site.write(server=f"workers = {workers}")
    entries = f"transfer = {list(transfer)}\nnotify = {list(notify)}\n"
    key = f'[[key]]\nname = "secondary."\nsecret = "{SECRET}"\n'
    text = site.config.read_text().replace('file = "hobbit.zone"\n', f'file = "hobbit.zone"\n{entries}')
    site.config.write_text(text + key)
    site.config.chmod(0o600)
    return site


def add_record(site: Site, line: str) -> None:
    """Add a record to the zone file without changing the zone's serial."""
    with (site.folder / "hobbit.zone").open("a") as file:
        file.write(f"{line}\n")


def rrset(port: int, name: str, rtype: str, seconds: float = PATIENCE) -> tuple[int, set[str]]:
    """Return the TTL and data in the answer from the server at ``port``, or (0, empty set) if there is no answer."""
    try:
        response = dns.query.udp(dns.message.make_query(name, rtype), "127.0.0.1", seconds, port)
    except (OSError, dns.exception.Timeout):
        return 0, set()
    for found in response.answer:
        if found.rdtype == dns.rdatatype.from_text(rtype):
            return found.ttl, {rdata.to_text() for rdata in found}
    return 0, set()


def serial(port: int, seconds: float = PATIENCE) -> int:
    _, soas = rrset(port, "hobbit", "SOA", seconds)
    return int(soas.pop().split()[2]) if soas else 0


def has_serial(secondary: Program, port: int, wanted: int, seconds: float = PATIENCE) -> None:
    secondary.until(lambda: serial(port, 1.0) == wanted, f"serial {wanted} at the secondary", seconds)


@contextlib.contextmanager
def bind(folder: Path, port: int, primary: int) -> Iterator[Program]:
    """Run BIND as a secondary of the server on port ``primary``."""
    folder.mkdir()
    config = folder / "named.conf"
    config.write_text(f"""
options {{
    directory "{folder}"; pid-file none; session-keyfile none; lock-file none;
    listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    recursion no; dnssec-validation no; notify no; empty-zones-enable no;
}};
controls {{ }};
key "secondary." {{ algorithm hmac-sha256; secret "{SECRET}"; }};
zone "hobbit" {{
    type secondary; file "hobbit.copy"; masterfile-format text;
    primaries port {primary} {{ 127.0.0.1 key "secondary."; }};
}};
""")
    with running(program("named"), "-g", "-4", "-n", "1", "-c", str(config)) as named:
        yield named


@contextlib.contextmanager
def knot(folder: Path, port: int, primary: int) -> Iterator[Program]:
    """Run Knot DNS as a secondary of the server on port ``primary``; Knot accepts only signed NOTIFY messages."""
    (folder / "run").mkdir(parents=True)
    config = folder / "knot.conf"
    config.write_text(f"""
server:
    listen: 127.0.0.1@{port}
    rundir: "{folder}/run"
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "{folder}/db"
log:
  - target: stderr
    any: info
key:
  - id: secondary.
    algorithm: hmac-sha256
    secret: {SECRET}
remote:
  - id: primary
    address: 127.0.0.1@{primary}
    key: secondary.
acl:
  - id: notified
    address: 127.0.0.1
    key: secondary.
    action: notify
zone:
  - domain: hobbit
    storage: "{folder}"
    file: hobbit.copy
    master: primary
    acl: notified
""")
    with running(program("knotd"), "-c", str(config)) as knotd:
        yield knotd


@contextlib.contextmanager
def nsd(folder: Path, port: int, primary: int) -> Iterator[Program]:
    """Run NSD, without a key, as a secondary of the server on port ``primary``."""
    folder.mkdir()
    config = folder / "nsd.conf"
    config.write_text(f"""
server:
    ip-address: 127.0.0.1@{port}
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "{folder}"
    database: ""
    pidfile: ""
    xfrdfile: "{folder}/xfrd.state"
    xfrdir: "{folder}"
    zonelistfile: "{folder}/zone.list"
    xfrd-reload-timeout: 0
    zonefiles-write: 1
    verbosity: 2
remote-control:
    control-enable: no
zone:
    name: hobbit
    zonefile: hobbit.copy
    allow-notify: 127.0.0.1 NOKEY
    request-xfr: 127.0.0.1@{primary} NOKEY
""")
    with running(program("nsd"), "-d", "-c", str(config)) as server:
        yield server


def check_copy(port: int) -> None:
    for name in ("best.hobbit", "round.robin.hobbit", "weighted.hobbit"):
        assert rrset(port, name, "A") == (30, ALL_A)
        assert rrset(port, name, "AAAA") == (30, {"::18"})
    assert rrset(port, "frodo.hobbit", "A") == (300, {"127.0.0.17"})


@needs(programs=("named", "named-checkzone"))
@pytest.mark.parametrize("workers", [1, 2])
def test_bind(tmp_path: Path, workers: int) -> None:
    (port,) = free_ports(1)
    site = new_primary(tmp_path, ["127.0.0.1 key secondary."], [f"127.0.0.1:{port} key secondary."], workers)
    with serving(site) as server, bind(tmp_path / "bind", port, site.dns_port) as named:
        has_serial(named, port, 7)
        check_copy(port)
        add_record(site, "merry A 127.0.0.19")
        server.process.send_signal(signal.SIGHUP)
        has_serial(named, port, 8, SOON)
        assert rrset(port, "merry.hobbit", "A") == (300, {"127.0.0.19"})
        site.config.write_text(site.config.read_text().replace('"frodo", "gandalf"]', '"frodo", "gandalf", "merry"]'))
        server.process.send_signal(signal.SIGHUP)
        has_serial(named, port, 9, SOON)
        assert rrset(port, "best.hobbit", "A") == (30, ALL_A | {"127.0.0.19"})
        assert serial(site.dns_port) == 9
        copy = tmp_path / "bind" / "hobbit.copy"
        named.until(lambda: copy.exists() and "merry" in copy.read_text(), "the copy is in its file")
        status, said = run("named-checkzone", "-i", "local", "hobbit", str(copy))
        assert status == 0, said
        server.until(lambda: "transferred to 127.0.0.1" in server.errors, "the transfer is logged")


@needs(programs=("knotd",))
def test_knot_is_told_when_we_come_back_and_what_changed_while_we_were_away(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    site = new_primary(tmp_path, ["key secondary."], [f"127.0.0.1:{port} key secondary."])
    with knot(tmp_path / "knot", port, site.dns_port) as knotd:
        with serving(site) as server:
            has_serial(knotd, port, 7)
            check_copy(port)
            assert server.stop() == 0
        add_record(site, "pippin A 127.0.0.20")
        assert serial(port) == 7, "it goes on alone"
        with serving(site) as server:
            has_serial(knotd, port, 8, SOON)
            assert rrset(port, "pippin.hobbit", "A") == (300, {"127.0.0.20"})
            server.until(lambda: "serial 8 to 127.0.0.1" in server.errors, "the NOTIFY is answered")


@needs(programs=("nsd",))
def test_nsd_by_its_address_alone(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    site = new_primary(tmp_path, ["127.0.0.1"], [f"127.0.0.1:{port}"])
    with serving(site) as server, nsd(tmp_path / "nsd", port, site.dns_port) as secondary:
        has_serial(secondary, port, 7)
        check_copy(port)
        add_record(site, "sam A 127.0.0.21")
        server.process.send_signal(signal.SIGHUP)
        has_serial(secondary, port, 8, SOON)
        assert rrset(port, "sam.hobbit", "A") == (300, {"127.0.0.21"})


# Asked by hand


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a server that permits transfers to one network and to one key."""
    site = new_primary(tmp_path_factory.mktemp("primary"), ["127.0.9.0/24", "key secondary."])
    with serving(site):
        yield site


KEY = f"hmac-sha256:secondary.:{SECRET}"
WRONG_SECRET = f"hmac-sha256:secondary.:{base64.b64encode(b'x' * 32).decode()}"
WRONG_NAME = f"hmac-sha256:other.:{SECRET}"


def run(tool: str, *arguments: str) -> tuple[int, str]:
    """Run a program; return its exit status, and its standard output and standard error combined."""
    done = subprocess.run([program(tool), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


def asked(tool: str, site: Site, *arguments: str) -> str:
    """Return the output of a program that requests a zone transfer."""
    return run(tool, "@127.0.0.1", "-p", str(site.dns_port), *arguments, "hobbit", "AXFR")[1]


@needs(programs=("dig", "kdig", "drill"))
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("dig", ["+tcp", "-y", KEY]),
        ("dig", ["-b", "127.0.9.1"]),
        ("kdig", ["-y", KEY]),
        ("kdig", ["-b", "127.0.9.1"]),
        ("drill", ["-y", f"secondary.:{SECRET}:hmac-sha256"]),
    ],
)
def test_who_may_gets_it(primary: Site, tool: str, arguments: list[str]) -> None:
    text = asked(tool, primary, *arguments)
    lines = [line.split() for line in text.splitlines() if line and not line.startswith(";")]
    records = {(line[0], line[3], line[4]) for line in lines if len(line) > 4}
    assert {("best.hobbit.", "A", address) for address in ALL_A} <= records
    assert [line[3] for line in lines].count("SOA") == 2


@needs(programs=("dig", "kdig", "drill"))
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("dig", [], "Transfer failed"),
        ("dig", ["-y", WRONG_SECRET], "tsig indicates error"),
        ("dig", ["-y", WRONG_NAME], "tsig indicates error"),
        ("dig", ["-b", "127.0.8.1"], "Transfer failed"),
        ("dig", ["-b", "127.0.9.1", "-y", WRONG_SECRET], "tsig indicates error"),
        ("kdig", [], "REFUSED"),
        ("kdig", ["-y", WRONG_SECRET], "BADSIG"),
        ("drill", [], "REFUSED"),
    ],
)
def test_who_may_not_gets_nothing(primary: Site, tool: str, arguments: list[str], said: str) -> None:
    text = asked(tool, primary, *arguments)
    assert said in text, text
    assert "127.0.0.16" not in text


@needs(programs=("dig", "kdig"))
@pytest.mark.parametrize("tool", ["dig", "kdig"])
@pytest.mark.parametrize("rtype", ["SOA", "A"])
def test_ordinary_queries_are_signed_too(primary: Site, tool: str, rtype: str) -> None:
    status, text = run(tool, "@127.0.0.1", "-p", str(primary.dns_port), "-y", KEY, "hobbit", rtype)
    assert status == 0
    assert "NOERROR" in text
    assert "TSIG PSEUDOSECTION" in text
    assert "verify" not in text.lower(), text


@needs(programs=("dig",))
def test_ixfr_of_who_is_up_to_date_and_of_who_is_not(primary: Site) -> None:
    def ixfr(serial: int) -> int:
        to = ("@127.0.0.1", "-p", str(primary.dns_port), "-y", KEY, "+tcp", "hobbit")
        _, text = run("dig", *to, f"ixfr={serial}")
        return sum(line.split()[3:4] == ["SOA"] for line in text.splitlines())

    assert ixfr(7) == 1, "the SOA alone"
    assert ixfr(6) == 2, "a whole zone, from SOA to SOA"
