"""Declare the keys of a section as dataclass fields. Each field has a default, and a function that reads the value."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from lbdns.config.service_credentials import CREDENTIALS
from lbdns.config.toml_reader import TomlTable
from lbdns.text.times import LONGEST, format_duration, parse_duration
from lbdns_shared.endpoint import DNS_PORT, Endpoint, address_fault, parse_endpoint

HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\Z")
MAX_NAME: Final = 253  # characters: 255 octets in wire form, RFC 1035 section 2.3.4

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
S = TypeVar("S", bound=str)
T = TypeVar("T")


def key(read: Callable[[TomlTable, str, Any], T], default: Any = MISSING) -> T:
    """Return a dataclass field whose value is read with ``read(table, field_name, default)``."""
    return field(default=default, metadata={"read": read})  # type: ignore[no-any-return]


def string(default: str = "") -> str:
    return key(TomlTable.string, default)


def required() -> str:
    return key(lambda table, name, _: table.required(name))


def required_domain() -> str:
    return key(lambda table, name, _: domain_name(table, name, table.required(name)))


def flag(default: bool) -> bool:
    return key(TomlTable.flag, default)


def integer(default: int, least: int, most: int) -> int:
    return key(lambda table, name, _: table.integer(name, default, least, most), default)


def number(default: float, least: float, most: float) -> float:
    return key(lambda table, name, _: table.number(name, default, least, most), default)


def duration(default: float, least: float = 0.0, most: float = LONGEST) -> float:
    """Return a field for a duration from ``least`` to ``most`` seconds, written as in "15min", "0s" or "0"."""

    def parse(table: TomlTable, name: str, _: object) -> float:
        text = table.string(name, f"{default:g}s")
        try:
            seconds = 0.0 if text in ("0", "0s") else parse_duration(text)
        except ValueError as error:
            table.wrong(name, str(error), text)
            return default
        if not least <= seconds <= most:
            range_text = f"from {_limit(least)} to {_limit(most)}" if most < LONGEST else f"at least {_limit(least)}"
            table.wrong(name, f"must be {range_text}, not {text!r}", text)
            return default
        return seconds

    return key(parse, default)


def _limit(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 1 else f"{seconds:g}s" if seconds else "0"


def one_of(default: S, known: Iterable[S]) -> S:
    return key(lambda table, name, _: table.one_of(name, default, known), default)


def each(default: tuple[T, ...], parse: Callable[[str], T]) -> tuple[T, ...]:
    return key(lambda table, name, _: table.each(name, default, parse), default)


def distinct(parse: Callable[[str], T]) -> tuple[T, ...]:
    """Return a field for a list without duplicates. The default is an empty list."""
    return key(lambda table, name, _: tuple(dict.fromkeys(table.each(name, (), parse))), ())


def path(default: str) -> Path:
    """Return a field for a path. Relative paths are relative to the directory of the configuration file."""
    return key(lambda table, name, _: table.folder / table.string(name, default), Path(default))


def optional_path() -> Path | None:
    return key(lambda table, name, _: table.folder / text if (text := table.string(name)) else None, None)


def secret_path() -> Path | None:
    """Return a field for the path of a file that holds a secret. A credential replaces the file, if there is one."""
    return key(
        lambda table, name, _: CREDENTIALS.copy_or(table.folder / text) if (text := table.string(name)) else None, None
    )


def read_fields(kind: Callable[..., T], table: TomlTable) -> T:
    """Return an instance of ``kind``: read each field declared with ``key`` from the table, and record errors."""
    declared = [field for field in fields(kind) if "read" in field.metadata]  # type: ignore[arg-type]
    return kind(**{field.name: field.metadata["read"](table, field.name, field.default) for field in declared})


def read_section(
    root: TomlTable, name: str, kind: Callable[..., T], check: Callable[[T, TomlTable], None] | None = None
) -> T:
    """Return the section ``[name]``, and record any errors in it. ``check`` reports conflicts between several keys."""
    table = root.section(name)
    found = read_fields(kind, table)
    if check:
        check(found, table)
    table.end()
    return found


def domain_name(table: TomlTable, key: str, text: str) -> str:
    """Return a domain name in lower case, without its final dot. If the name is not valid, record an error."""
    name = text.lower().removesuffix(".")
    if len(name) > MAX_NAME or (name and not HOST_NAME.match(name.replace("/", "-"))):
        table.wrong(key, f"{text!r} is not a valid domain name")
    return name


def parse_network(text: str) -> Network:
    """Parse a network, which is written as ADDRESS/BITS or as a single address. Raises ValueError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a network: {_network_fault(text)}; write a network such as 10.0.0.0/8 or 2001:db8::/32, "
            "or a single address"
        ) from None


def _network_fault(text: str) -> str:
    """Return what is wrong with a network that ``ipaddress`` rejects."""
    address, slash, bits = text.partition("/")
    if fault := address_fault(address):
        return fault
    most = ipaddress.ip_address(address).max_prefixlen
    if slash and not (bits.isdecimal() and int(bits) <= most):
        return f"the prefix length must be a number from 0 to {most}, not {bits!r}"
    network = ipaddress.ip_network(text, strict=False)
    return f"the address has bits beyond the prefix length; the network is {network}"


def parse_host(text: str, what: str) -> Endpoint:
    """Parse ADDRESS[:PORT], the DNS endpoint of another host. Error messages refer to the host as ``what``.

    Raises ValueError.
    """
    endpoint = parse_endpoint(text, DNS_PORT)
    if not endpoint.is_address:
        raise ValueError(f"{text!r}: {what} must be an address, such as 192.0.2.1:53, not a name")
    address = ipaddress.ip_address(endpoint.host)
    if address.is_unspecified or address.is_multicast or not endpoint.port:
        raise ValueError(f"{text!r} is not a host's address; write, for example, 192.0.2.1:53")
    return endpoint
