"""``lbdns ask``: send a DNS query and print the response, as dig does."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from dnslib import CLASS, QTYPE, RCODE, RR

from lbdns.client import dns_client
from lbdns.client.dns_client import TIMEOUT, DnsReply
from lbdns.client.server_location import dns_server_of
from lbdns.command_line.common_options import config_option
from lbdns.text.suggestions import nearest
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_endpoint
from lbdns_shared.errors import ConfigError

PLUS_OPTIONS: Final = ("+tcp", "+short", "+norecurse")
CLASSES: Final = ("IN", "CH")
FLAGS: Final = ("qr", "aa", "tc", "rd", "ra", "ad", "cd")
_GENERIC: Final = re.compile(r"TYPE([0-9]{1,5})\Z")  # RFC 3597 section 5


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """The DNS question from the command line, and the address of the server to query."""

    name: str
    rtype: str
    rclass: str
    server: Endpoint | None  # None: the server that the configuration describes
    options: frozenset[str]


@click.command(epilog="Exit status: 0 if a response was received (with any RCODE), 1 if not, 2 on invalid arguments.")
@click.argument("words", nargs=-1, required=True, metavar="NAME [TYPE] [@SERVER[:PORT]] [+tcp] [+short] [+norecurse]")
@click.option(
    "-x", "--reverse", is_flag=True, help="Treat NAME as an IP address, and look up its host name (type PTR)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the response as JSON.")
@click.option("--timeout", type=click.FloatRange(0.01, 60.0), default=TIMEOUT, show_default=True, metavar="SECONDS",
              help="Time to wait for a response on each of three attempts.")  # fmt: skip
@config_option
def ask(words: Sequence[str], reverse: bool, as_json: bool, timeout: float, config: Path) -> None:
    """Send a DNS query and print the response.

    TYPE is a record type such as A (the default), AAAA, TXT, SOA or ANY. By default, the command queries the server
    described in the configuration file. If the file does not exist, the command queries the first name server in
    /etc/resolv.conf. If the response is truncated, the command repeats the query over TCP, as dig does.

    \b
    Examples:
      lbdns ask best.hobbit @127.0.0.1:5300
      lbdns ask best.hobbit AAAA +short
      lbdns ask explain.best.hobbit TXT @10.0.0.5 --json
      lbdns ask -x 127.0.0.16 @127.0.0.1:5300
    """
    question = read_words(words, reverse)
    server = question.server or dns_server_of(config)
    recursion = "+norecurse" not in question.options
    try:
        query = dns_client.make_query(question.name, question.rtype, question.rclass, recursion=recursion)
    except ValueError as error:
        raise ConfigError(f"lbdns ask: {error}") from None
    reply = dns_client.ask(query, server, tcp="+tcp" in question.options, timeout=timeout)
    if as_json:
        click.echo(json.dumps(as_document(reply, server), indent=2))
    elif "+short" in question.options:
        for record in reply.message.rr:
            click.echo(str(record.rdata))
    else:
        click.echo(reply.message)  # as dig prints it
        click.echo(f";; {server} ({reply.transport}), {1000 * reply.seconds:.1f} ms, {reply.size} bytes")


def read_words(words: Sequence[str], reverse: bool = False) -> AskedQuestion:
    """Return the question that the arguments describe. As in dig, arguments may be in any order. Raises ConfigError."""
    plain = [word for word in words if word[0] not in "@+"]
    options = frozenset(word.lower() for word in words if word[0] == "+")
    servers = [word[1:] for word in words if word[0] == "@"]
    for option in sorted(options - {*PLUS_OPTIONS}):
        raise ConfigError(f"lbdns ask: unknown option {option}{nearest(option, PLUS_OPTIONS)}")
    if not plain:
        raise ConfigError("lbdns ask: no name was given; for example, run 'lbdns ask best.hobbit'")
    if len(servers) > 1:
        raise ConfigError(f"lbdns ask: specify only one server, not @{' and @'.join(servers)}")
    server = None
    if servers:
        try:
            server = parse_endpoint(servers[0], DNS_PORT)
        except ValueError as error:
            raise ConfigError(f"lbdns ask: @{servers[0]}: {error}") from None
    name, rtype, rclass = plain[0], "PTR" if reverse else "A", "IN"
    for word in plain[1:]:
        if word.upper() in CLASSES:
            rclass = word.upper()
        else:
            rtype = _type(word)
    return AskedQuestion(_reverse_name(name) if reverse else name, rtype, rclass, server, options)


def _type(word: str) -> str:
    """Return dnslib's name for a record type. Raises ConfigError."""
    text, known = word.upper(), list(QTYPE.reverse)
    generic = _GENERIC.match(text)
    if text in known or (generic and int(generic[1]) < 65_536):
        return text
    raise ConfigError(f"lbdns ask: {word!r} is not a record type{nearest(text, known)}")


def _reverse_name(address: str) -> str:
    try:
        return ipaddress.ip_address(address).reverse_pointer
    except ValueError:
        raise ConfigError(f"lbdns ask: -x: {address!r} is not an IP address") from None


def as_document(reply: DnsReply, server: Endpoint) -> dict[str, Any]:
    """Return the response as plain data: status, flags, question, and the records of each section."""
    message = reply.message
    header = message.header
    return {
        "server": str(server),
        "transport": reply.transport,
        "time_ms": round(1000 * reply.seconds, 3),
        "size": reply.size,
        "id": header.id,
        "status": _named(RCODE, header.rcode, "RCODE"),
        "flags": [flag for flag in FLAGS if getattr(header, flag)],
        "question": [
            {"name": str(q.qname), "type": _named(QTYPE, q.qtype, "TYPE"), "class": _named(CLASS, q.qclass, "CLASS")}
            for q in message.questions
        ],
        "answer": [_record(record) for record in message.rr],
        "authority": [_record(record) for record in message.auth],
        "additional": [_record(record) for record in message.ar if record.rtype != QTYPE.OPT],
    }


def _record(record: RR) -> dict[str, Any]:
    return {
        "name": str(record.rname),
        "ttl": record.ttl,
        "class": _named(CLASS, record.rclass, "CLASS"),
        "type": _named(QTYPE, record.rtype, "TYPE"),
        "data": str(record.rdata),
    }


def _named(table: Any, number: int, unknown: str) -> str:
    """Return the name of a protocol number.

    If the number has no name, the function returns ``unknown`` followed by the number, as in TYPE999 (RFC 3597).
    """
    return str(table.forward.get(number, f"{unknown}{number}"))
