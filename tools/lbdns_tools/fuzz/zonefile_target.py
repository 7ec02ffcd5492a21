"""Fuzz target ``zonefile``: the parser of master files, and answers from the parsed zones.

An input is the text of a zone file. A line ";;; NAME" starts another file in the same directory, for use with $INCLUDE.
The parser must return a zone or raise ZoneFileError. The server must be able to answer queries for every name in the
zone.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final
from unittest import mock

import dns.flags
import dns.rcode
import dns.rdata
import dns.rdatatype

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.dns_constants import TCP, UDP
from lbdns.answering.responder import Responder
from lbdns.config import CollectorConfig, Config, ServerConfig, ZoneConfig
from lbdns.model.farm import build_farm
from lbdns.zones import master_file, names, zone_records
from lbdns.zones.master_file import Zone, parse_zone, read_zone
from lbdns_shared.errors import ZoneFileError
from lbdns_tools.fuzz.fuzz_targets import Mutator
from lbdns_tools.fuzz.response_checks import check_response

SECONDS: Final = 5.0
MAX_LENGTH: Final = 4096
ORIGIN: Final = "hobbit"
CLIENT: Final = ("127.0.0.1", 5353)  # no rate limit
GENERATED: Final = 300  # records; the real limit takes minutes with instrumentation
RECORDS: Final = 200  # of one name and type
INCLUDED: Final = 40  # files
QUERIED: Final = 6  # names of a zone in queries: the first and the last ones
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
ABSENT: Final = 65_279  # a type that inputs do not have

dns.rdata.load_all_types()  # type: ignore[no-untyped-call]

_FILE: Final = re.compile(rb"^;;; ([a-z]{1,8})\n", re.MULTILINE)
HEAD: Final = "$TTL 300\n@ SOA ns hostmaster 7 3600 900 604800 60\n@ NS ns\n"
RECORD_LINES: Final = (
    "www 60 IN A 192.0.2.1", "www AAAA 2001:db8::1", "* A 192.0.2.2", '*.a.b TXT "x y" z\\"\\065',
    "@ MX 10 mail.hobbit.", "alias CNAME www", "old DNAME new.hobbit.",
    "sub NS ns.sub\nsub DS 1 8 2 " + "00" * 32 + "\nns.sub A 192.0.2.3",
    "_sip._tcp SRV 0 5 5060 www", "odd TYPE65280 \\# 3 abcdef", "odd TYPE1 \\# 4 C0000201",
    "cert CERT 1 2 3 AAECAw==", "here LOC 52 22 23.000 N 4 53 32.000 E -2.00m 1m 10000m 10m",
    'c CAA 0 issue "ca.example"', "h HTTPS 1 . alpn=h2,h3 port=443 ipv4hint=192.0.2.1 key999=x", "h SVCB 0 www",
    'n NAPTR 1 2 "u" "E2U" "!x!y!" .', "apl APL 1:192.0.2.0/24 !2:2001:db8::/32", "k DNSKEY 257 3 8 AAECAw==",
    "s SSHFP 1 1 " + "00" * 20,
    "t TLSA 3 1 1 " + "00" * 32, "nsec NSEC b A TYPE65280",
    "p PTR www", "w WKS 192.0.2.1 6 25 80", 'hi HINFO "a" "b"',
    "sig RRSIG A 8 2 300 20300101000000 20200101000000 1 hobbit. AAAA", "eui EUI48 00-00-5e-00-53-2a",
    "n3 NSEC3 1 1 12 aabb 2t7b4g4vsa5smi47k61mv5bv1a22bojr A",
    "hip HIP 2 200100107B1A74DF365639CC39F1D578 AwEAAQ== rvs", "gpos GPOS -32.68 116.86 10.0", 'isdn ISDN "150" "4"',
    "nid NID 10 0014:4fff:ff20:ee64", "x25 X25 311", 'uri URI 10 1 "ftp://x"', "csync CSYNC 66 3 A NS",
    "dhcid DHCID AAIB", "amt AMTRELAY 10 0 1 192.0.2.1", "ipsec IPSECKEY 10 1 2 192.0.2.38 AQNR",
    "zmd ZONEMD 1 1 1 " + "00" * 48,
    "avc AVC x", "rp RP a b", "px PX 10 a b",
)  # fmt: skip
DIRECTIVES: Final = (
    "$ORIGIN sub.hobbit.", "$ORIGIN .", "$TTL 1h30m", "$GENERATE 1-9 web$ A 192.0.2.$",
    "$GENERATE 0-15/5 ${0,3,x}.${-0,4,n} 60 IN PTR h${1,2,d}.hobbit.", "$GENERATE 1-9 a TXT $", "$INCLUDE a",
    "$INCLUDE b sub.hobbit.", '$INCLUDE "a" ; c', "$UNICODE 2003",
)  # fmt: skip
TOKENS: Final = (
    "@", "*", ".", "\\", "\\000", "\\255", "\\.", "\\256", "(", ")", '"', '""', ";", "$", "${", "}", "$$", "-", "/",
    "!", ":", "0", "1", "-1", "255", "256", "65535", "65536", "2147483647", "2147483648", "4294967295", "4294967296",
    "9" * 25, "1e999m", "nan", "inf", "\\#", "IN", "CH", "ANY", "NONE", "TYPE0", "TYPE41",
    "TYPE255", "TYPE65535", "TYPE65536", "CLASS1", "CNAME", "DNAME", "SOA", "OPT", "TSIG", "NXNAME", "a", "b",
    "hobbit.", "example.", "x" * 63,
    "x" * 64, "1w", "\u017f", "\xfc", "\u0131", "\u0661",
    "\r", "\t", "\x0b", "\x00", "\u2028", "0-9999999", "1-3/0", "5-1", "0x10", "AAAA", "AAE=", "=", "key65535",
    "alpn=", "mandatory=alpn",
)  # fmt: skip
WORDS: Final = tuple(
    dict.fromkeys(word.encode() for text in (*RECORD_LINES, *DIRECTIVES, *TOKENS) for word in (text.split() or [text]))
)


def files(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every file in an input, starting with the zone file."""
    head, *rest = _FILE.split(data)
    yield "zone", head
    for name, content in zip(rest[::2], rest[1::2], strict=True):
        yield name.decode(), content


def check(data: bytes) -> None:
    with (
        mock.patch.object(master_file, "MAX_GENERATED", GENERATED),
        mock.patch.object(zone_records, "MAX_RECORDS", RECORDS),
        mock.patch.object(master_file, "MAX_INCLUDED", INCLUDED),
    ):
        try:
            zone = _read(dict(files(data)))
        except ZoneFileError as error:
            for finding in error.findings:
                assert "\n" not in finding, "a finding must not contain a line break"
                assert ": zone hobbit: " in finding
            return
    _check_zone(zone)
    _check_served(zone)


def _read(contents: Mapping[str, bytes]) -> Zone:
    """Parse the zone file in a fuzz input. A directory is created only if the zone includes other files, because
    creating one is the slowest step.
    """
    try:
        text = contents["zone"].decode()
    except UnicodeDecodeError:
        text = ""
    if text and b"$INCLUDE" not in contents["zone"].upper():
        return parse_zone(ORIGIN, text, Path("zone"))
    with tempfile.TemporaryDirectory(prefix="lbdns-fuzz-") as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        return read_zone(ORIGIN, Path(folder, "zone"))


def _check_zone(zone: Zone) -> None:
    assert len(zone.soa.rdatas) == 1
    assert 0 <= zone.serial < 2**32
    for owner, node in zone.nodes.items():
        assert names.is_below(owner, zone.origin)
        assert len(owner) <= names.MAX_NAME
        assert owner == owner.lower()
        assert node
        for rtype, rrset in node.items():
            assert 0 < rtype < 65_536
            assert 0 <= rrset.ttl <= MAX_TTL
            assert rrset.rdatas
            assert len(set(rrset.rdatas)) == len(rrset.rdatas)


def _check_served(zone: Zone) -> None:
    """Query the zone's names for existing and missing types, and check that the answers contain its records."""
    responder = _responder()
    responder.table = _table(zone)
    owners = list(zone.nodes)
    for owner in owners[: QUERIED // 2] + owners[QUERIED // 2 :][-QUERIED // 2 :]:
        has = [rtype for rtype in zone.nodes[owner] if owner != zone.origin or rtype not in (2, 6)]
        for rtype in has[:4]:
            _query_and_check(responder, zone, owner, rtype, UDP)
        for rtype in (*has[:4], 1, 255, ABSENT):
            _query_and_check(responder, zone, owner, rtype, TCP)


@cache
def _responder() -> Responder:
    """Return the responder that all inputs share. Creating a responder takes as long as answering ten queries."""
    return Responder(_table(parse_zone(ORIGIN, HEAD, Path("zone"))))


def _table(zone: Zone) -> AnswerTable:
    config = Config(Path("lbdns.toml"), ServerConfig(), (ZoneConfig(ORIGIN, Path("zone")),), (), CollectorConfig())
    return AnswerTable(build_farm(config, [zone]))


def _query_and_check(responder: Responder, zone: Zone, owner: bytes, rtype: int, transport: int) -> None:
    query = b"id\0\0\0\1\0\0\0\0\0\0" + owner + rtype.to_bytes(2, "big") + b"\0\1"
    response = responder.respond(query, CLIENT, transport)
    assert isinstance(response, bytes)
    message = check_response(query, response, transport == TCP, 512)
    # An alias may lead to a name that does not exist or is too long; over UDP the response may be truncated
    assert message.rcode() == dns.rcode.NOERROR or message.answer or message.flags & dns.flags.TC
    rrset = zone.nodes[owner].get(rtype)
    if transport == UDP or rrset is None or _is_elsewhere(zone, owner, rtype):
        return
    answered = {rdata for found in message.answer if found.rdtype == rtype for rdata in found}
    assert answered == {
        dns.rdata.from_wire("IN", dns.rdatatype.RdataType.make(rtype), rdata, 0, len(rdata)) for rdata in rrset.rdatas
    }, "the answer must contain exactly the zone's records"
    assert all(found.ttl == rrset.ttl for found in message.answer)


def _is_elsewhere(zone: Zone, owner: bytes, rtype: int) -> bool:
    """Return whether a delegation, or a DNAME above ``owner``, hides the records at ``owner``."""
    for above in names.suffixes(owner):
        node = zone.nodes.get(above, {})
        if above != zone.origin and 2 in node and not (above == owner and rtype == 43):
            return True
        if above != owner and 39 in node:
            return True
        if above == zone.origin:
            return False
    return False


def seeds() -> Mapping[str, bytes]:
    found = {
        f"record-{line.split()[0].strip('*_@') or at}-{at}": HEAD + line + "\n" for at, line in enumerate(RECORD_LINES)
    }
    found |= {f"directive-{at}": f"{HEAD}{line}\nafter A 192.0.2.9\n" for at, line in enumerate(DIRECTIVES)}
    found["include"] = f"{HEAD}$INCLUDE a\n$INCLUDE b sub\n;;; a\na A 192.0.2.1\n$INCLUDE b\n;;; b\nb A 192.0.2.2\n"
    found["all"] = HEAD + "\n".join(RECORD_LINES[:12]) + "\n"
    found["parentheses"] = "@ 60 IN SOA ns.x. h.x. ( 1 ; serial\n 2 3\n 4 5 )\n  IN NS ns.x.\n  60 NS ns\n"
    found["nothing"] = ""
    return {name: text.encode() for name, text in found.items()}


def mutate(data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes:
    if not data or chance.random() < 0.3:
        return bytewise(data, max_size)
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            lines.insert(at, chance.choice(RECORD_LINES).encode())
        case 1:
            lines.insert(at, chance.choice(DIRECTIVES).encode())
        case 2:
            lines.insert(at, chance.choice(lines))
        case 3 if len(lines) > 1:
            del lines[at]
        case _:
            lines[at] = _another_line(lines[at].split(b" "), chance, bytewise)
    return b"\n".join(lines)[:max_size]


def _another_line(words: list[bytes], chance: random.Random, bytewise: Mutator) -> bytes:
    at = chance.randrange(len(words))
    match chance.randrange(5):
        case 0:
            words[at] = chance.choice(WORDS)
        case 1:
            words.insert(at, chance.choice(WORDS))
        case 2 if len(words) > 1:
            del words[at]
        case 3:
            words[at] += chance.choice(WORDS)
        case _:
            words[at] = bytewise(words[at], len(words[at]) + 8)
    return b" ".join(words)
