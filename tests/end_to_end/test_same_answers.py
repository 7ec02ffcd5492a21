"""Compares whole responses with those of BIND, Knot DNS and NSD, which serve the same zone file.

The servers differ where the RFCs leave a choice. A response of lbdns must be one that at least one of the others gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from lbdns_tools.free_ports import free_ports
from tests.answering.asking import client, make_responder
from tests.answering.farms import make_farm
from tests.end_to_end.process import PATIENCE, Program, running
from tests.needs import needs, program

ZONE = """$TTL 60
@ SOA ns hostmaster 1 2 3 4 5
@ NS ns
@ NS ns.elsewhere.example.
@ MX 10 mail
@ MX 20 alias
@ MX 30 x.wild
@ MX 40 ns.sub
@ MX 50 .
ns A 127.0.0.1
ns AAAA ::1
mail A 127.0.0.2
mail AAAA ::2
alias CNAME mail
*.wild A 127.0.0.3
sub NS ns.sub
sub NS ns.sibling
sub NS mail
sub DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000
ns.sub A 127.0.0.4
sibling NS ns.sibling
ns.sibling A 127.0.0.5
chain CNAME srv
srv SRV 0 0 80 mail
kx KX 10 mail
rt RT 1 mail
afsdb AFSDB 1 mail
https HTTPS 1 mail alpn=h2
self HTTPS 1 . alpn=h2
self A 127.0.0.6
old DNAME new
a.new A 127.0.0.7
"""
OBSOLETE = "mb MB mail\nminfo MINFO mail x.wild\n"  # Knot does not know these types
QUESTIONS = [
    *((name, rtype) for name in ("z", "x.wild.z", "mail.z") for rtype in ("A", "NS", "MX", "SRV", "DS", "CNAME")),
    *((f"{name}.z", name.upper()) for name in ("srv", "kx", "rt", "afsdb", "https", "mb", "minfo")),
    *(("self.z", "HTTPS"), ("chain.z", "SRV"), ("nowhere.z", "MX")),
    *((f"{name}.z", rtype) for name in ("sub", "x.sub") for rtype in ("A", "NS", "MX", "CNAME")),
    *((f"{name}.old.z", rtype) for name in ("a", "b") for rtype in ("A", "AAAA", "CNAME", "DNAME")),
]
Response = tuple[str, str, list[str], list[str], list[str]]


@contextlib.contextmanager
def bind(folder: Path, port: int) -> Iterator[Program]:
    (folder / "named.conf").write_text(f"""
options {{
    directory "{folder}"; pid-file none; session-keyfile none; lock-file none;
    listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    recursion no; dnssec-validation no; notify no; empty-zones-enable no; minimal-responses no-auth;
}};
controls {{ }};
zone "z" {{ type primary; file "z.zone"; check-names ignore; check-mx ignore; check-integrity no; }};
""")
    with running(program("named"), "-g", "-4", "-n", "1", "-c", str(folder / "named.conf")) as server:
        yield server


@contextlib.contextmanager
def knot(folder: Path, port: int) -> Iterator[Program]:
    (folder / "knot.conf").write_text(f"""
server:
    listen: 127.0.0.1@{port}
    rundir: "{folder}"
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "{folder}/db"
log:
  - target: stderr
    any: info
zone:
  - domain: z
    file: "{folder}/z.zone"
    zonefile-sync: -1
    journal-content: none
""")
    with running(program("knotd"), "-c", str(folder / "knot.conf")) as server:
        yield server


@contextlib.contextmanager
def nsd(folder: Path, port: int) -> Iterator[Program]:
    (folder / "nsd.conf").write_text(f"""
server:
    ip-address: 127.0.0.1@{port}
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "{folder}"
    database: ""
    pidfile: ""
    xfrdfile: "{folder}/xfrd.state"
    zonelistfile: "{folder}/zone.list"
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: z
    zonefile: z.zone
""")
    with running(program("nsd"), "-d", "-c", str(folder / "nsd.conf")) as server:
        yield server


def compared(message: dns.message.Message) -> Response:
    """Return the parts of a response that are compared. NS records beside an answer are left out: they are optional."""
    answer, authority, additional = (
        sorted(
            f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)} {rdata}".lower()
            for rrset in section
            for rdata in rrset
        )
        for section in (message.answer, message.authority, message.additional)
    )
    flags = dns.flags.to_text(message.flags)
    if answer and "AA" in flags:
        apex_servers = {line for line in authority if line.startswith("z. ns ")}
        if apex_servers:
            addresses = {"ns.z. a 127.0.0.1", "ns.z. aaaa ::1"}
            authority = [line for line in authority if line not in apex_servers]
            additional = [line for line in additional if line not in addresses]
    return dns.rcode.to_text(message.rcode()), flags, answer, authority, additional


def ask(port: int, query: dns.message.Message, seconds: float = PATIENCE) -> dns.message.Message | None:
    with contextlib.suppress(OSError, dns.exception.Timeout):
        return dns.query.udp(query, "127.0.0.1", seconds, port)
    return None


def serves(port: int) -> bool:
    found = ask(port, dns.message.make_query("z", "SOA", flags=0), 2.0)
    return found is not None and bool(found.answer)


@needs(programs=("named", "knotd", "nsd"))
def test_every_answer_is_one_that_another_server_gives(tmp_path: Path) -> None:
    ports = free_ports(3)
    with contextlib.ExitStack() as servers:
        for start, port in zip((bind, knot, nsd), ports, strict=True):
            folder = tmp_path / start.__name__
            folder.mkdir()
            (folder / "z.zone").write_text(ZONE + OBSOLETE * (start is not knot))
            server = servers.enter_context(start(folder, port))
            server.until(partial(serves, port), "the zone is served")
        responder = make_responder(make_farm({"z": ZONE + OBSOLETE}))
        for name, rtype in QUESTIONS:
            query = dns.message.make_query(name, rtype, flags=0, use_edns=0, payload=1232)
            wire = responder.respond(query.to_wire(), client())
            assert isinstance(wire, bytes)
            ours = compared(dns.message.from_wire(wire))
            theirs = [compared(found) for port in ports if (found := ask(port, query))]
            assert ours in theirs, (name, rtype, ours, theirs)
