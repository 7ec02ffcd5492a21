"""Describes a new farm with one zone and one pool, and generates its configuration and zone file. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lbdns.config import DEFAULT_NAMES
from lbdns.config.value_readers import HOST_NAME
from lbdns_shared.endpoint import REPORT_PORT
from lbdns_shared.report import is_host_name

SERVER_LABEL: Final = "ns"  # the name of the DNS server in its own zone
RESERVED: Final = (SERVER_LABEL, *DEFAULT_NAMES)
KEY_FILE: Final = "report.key"


@dataclass(frozen=True, slots=True)
class NewMember:
    """A web server: its name in the zone (one or more labels), and its IPv4 and IPv6 addresses."""

    name: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewFarm:
    """The settings of a new farm. ``zone`` and ``clients_name`` are in lower case, without a final dot.

    ``address`` is the address at which other hosts reach the DNS server. ``listen`` lists the addresses on which it
    answers; if it is empty, the server answers on all its addresses. ``user`` may be empty: the server then keeps its
    user.
    """

    zone: str
    clients_name: str
    address: str
    members: tuple[NewMember, ...]
    listen: tuple[str, ...] = ()
    user: str = ""

    @property
    def zone_file(self) -> str:
        return f"{self.zone}.zone"


def parse_zone(text: str) -> str:
    """Return the name of a zone in lower case. Raises ValueError."""
    name = text.strip().lower().removesuffix(".")
    if not HOST_NAME.match(name) or len(name) > 253:
        raise ValueError(f"{text!r} is not a domain name; write a name such as example.net")
    return name


def parse_address(text: str) -> str:
    """Return an IP address in its usual form. Raises ValueError."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address; write an address such as 192.0.2.53") from None
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"{text} is not the address of a host")
    return str(address)


def parse_member(text: str) -> NewMember:
    """Parse a member written as NAME=ADDRESS[,ADDRESS...]. Raises ValueError."""
    name, equals, addresses = text.strip().partition("=")
    name = name.lower()
    if not equals or not addresses:
        raise ValueError(f"{text!r}: write a web server as NAME=ADDRESS, such as frodo=192.0.2.2")
    if not is_host_name(name) or not HOST_NAME.match(name):
        raise ValueError(f"{text!r}: {name!r} is not a host name; write only its name within the zone, such as frodo")
    return NewMember(name, tuple(dict.fromkeys(parse_address(part) for part in addresses.split(","))))


def check_farm(farm: NewFarm) -> None:
    """Raise ValueError if two hosts of the farm have the same name or address, or if a name is already in use."""
    if not farm.members:
        raise ValueError("a pool needs at least one web server")
    seen: dict[str, str] = {}
    for member in farm.members:
        if member.name in (*RESERVED, farm.clients_name):
            raise ValueError(
                f"the web server's name {member.name!r} is already in use in the zone; choose another name"
            )
        for key in (member.name, *member.addresses):
            if key in seen:
                raise ValueError(f"{key} appears twice: each web server needs a name and addresses of its own")
            seen[key] = member.name
    if farm.clients_name in RESERVED:
        raise ValueError(
            f"the name {farm.clients_name!r} is already in use in the zone; choose another name for clients"
        )


def zone_text(farm: NewFarm) -> str:
    """Return the text of the zone file."""
    hosts = [NewMember(SERVER_LABEL, (farm.address,)), *farm.members]
    width = max(len(host.name) for host in hosts)
    lines = [
        f"{host.name:<{width}}  {'AAAA' if ':' in address else 'A   '}  {address}"
        for host in hosts
        for address in host.addresses
    ]
    return (
        f"; Zone {farm.zone}. Raise the serial (the first number of the SOA record) with each change, then run\n"
        "; 'lbdns check' and 'lbdns reload'.\n"
        "$TTL 1h\n"
        f"@  SOA  {SERVER_LABEL} hostmaster ( 1 1h 15m 1w 5m )\n"
        f"@  NS   {SERVER_LABEL}\n" + "".join(f"{line}\n" for line in lines)
    )


def configuration_text(farm: NewFarm) -> str:
    """Return the text of lbdns.toml. The zone file and the key file are in the same folder."""
    listen = f"listen = {_listed(farm.listen)}\n" if farm.listen else ""
    user = f'user = "{farm.user}"\n' if farm.user else ""
    server = f"[server]\n{listen}{user}\n" if listen or user else ""
    policies = {farm.clients_name: "best", **DEFAULT_NAMES}
    names = ", ".join(f'{_key(name)} = "{policy}"' for name, policy in policies.items())
    return f"""\
# The configuration of lbdns. After each change, run 'lbdns check' and 'lbdns reload'.

{server}[[zone]]
name = "{farm.zone}"
file = "{farm.zone_file}"

[[pool]]
name = "web"
zone = "{farm.zone}"
members = {_listed(member.name for member in farm.members)}
names = {{ {names} }}

[collector]
key_file = "{KEY_FILE}"    # agents sign their reports with keys derived from it
"""


def delegation(farm: NewFarm) -> tuple[str, ...]:
    """Return the records that delegate the zone, for the parent zone."""
    server = f"{SERVER_LABEL}.{farm.zone}."
    kind = "AAAA" if ":" in farm.address else "A"
    return f"{farm.zone}.  NS  {server}", f"{server}  {kind}  {farm.address}"


def collector_option(farm: NewFarm) -> str:
    """Return the option with which agents find the collector.

    The default port is omitted where the syntax allows it.
    """
    return f"--collector {f'[{farm.address}]:{REPORT_PORT}' if ':' in farm.address else farm.address}"


def _key(name: str) -> str:
    """Return a TOML key."""
    return f'"{name}"' if "." in name else name


def _listed(items: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{item}"' for item in items) + "]"
