"""Read ``[web]``, which defines the address of the web pages, and the clients that may read them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import (
    HOST_NAME,
    MAX_NAME,
    Network,
    each,
    flag,
    integer,
    key,
    parse_network,
    secret_path,
    string,
)
from lbdns_shared.endpoint import HTTP_PORT, Endpoint, address_fault, parse_listen


def _listen(table: TomlTable, name: str, default: Endpoint) -> Endpoint | None:
    text = table.string(name, str(default))
    try:
        return None if text == "off" else parse_listen(text, HTTP_PORT)
    except ValueError as error:
        table.wrong(name, f'{error}; or write "off"')
        return default


def _name(text: str) -> str:
    """Return a host name in the form that is compared with Host headers: in lower case, without a final dot."""
    name = text.lower().removesuffix(".")
    if len(name) > MAX_NAME or not HOST_NAME.match(name):
        raise ValueError(f"{text!r} is not a host name; write it without a port, such as dns.example.com")
    return name


def _scaler(table: TomlTable, name: str, default: str) -> str:
    """Return the URL of a scaler without a final slash, or an empty string if there is none."""
    text = table.string(name, default)
    if text and (fault := _url_fault(text)):
        table.wrong(name, f"{text!r} is not the URL of a scaler: {fault}; write, for example, http://127.0.0.1:8054")
        return default
    return text.rstrip("/")


def _url_fault(text: str) -> str:
    """Return what is wrong with a scaler's URL, or an empty string if the URL is valid."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return "it contains spaces or special characters"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return "it must begin with http:// or https://"
    if "@" in parts.netloc:
        return "it must not contain a user name or a password"
    if fault := _host_fault(host):
        return f"{host!r} is not an address or a host name: {fault}" if host else "it has no host"
    if port == 0:
        return "the port must be a number from 1 to 65535"
    if parts.path.strip("/") or "?" in text or "#" in text:
        return "it must end after the host and the port"
    return ""


def _host_fault(host: str) -> str:
    if ":" in host or host.rpartition(".")[2].isdecimal():
        return address_fault(host)
    return "" if len(host) <= MAX_NAME and HOST_NAME.match(host) else "names consist of letters, digits, '-' and '.'"


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings for HTTP. If HTTP is off, ``listen`` is None.

    ``allow`` contains the networks whose clients may read the pages.
    """

    listen: Endpoint | None = key(_listen, Endpoint("127.0.0.1", HTTP_PORT))  # None: HTTP is off
    allow: tuple[Network, ...] = each((), parse_network)  # networks that may read; the loopback always may
    names: tuple[str, ...] = each((), _name)  # host names of this server, besides addresses and localhost
    connections_per_client: int = integer(64, 4, 132)  # from one address (this machine excepted)
    user: str = string()  # with ``password_file``: HTTP basic authentication (RFC 7617)
    password_file: Path | None = secret_path()
    token_file: Path | None = secret_path()  # a bearer token (RFC 6750), accepted as well
    steer: bool = flag(False)  # whether clients with credentials may drain, force and weight members
    steer_token_file: Path | None = secret_path()  # bearer tokens; if set, only these may steer
    tls_cert: Path | None = secret_path()  # the server's certificate, then its issuers (PEM); with it, only HTTPS
    tls_key: Path | None = secret_path()  # the certificate's private key (PEM)
    scaler: str = key(_scaler, "")  # URL of a running lbdns-scaler, whose status the page shows; empty: none
    max_member_series: int = integer(2000, 0, 10**6)  # above this number, /metrics has no series for single members

    @property
    def scheme(self) -> str:
        """The scheme of the server's URL."""
        return "https" if self.tls_cert else "http"


def check_web(web: WebConfig, table: TomlTable) -> None:
    if bool(web.user) != bool(web.password_file):
        missing = "password_file" if web.user else "user"
        table.wrong(missing, "is missing; user and password_file must be set together")
    if bool(web.tls_cert) != bool(web.tls_key):
        missing = "tls_key" if web.tls_cert else "tls_cert"
        table.wrong(missing, "is missing; tls_cert and tls_key must be set together")
    _check_steering(web, table)
    if ":" in web.user:
        table.wrong("user", "must not contain a colon, which HTTP basic authentication forbids (RFC 7617, section 2)")
    if web.listen and not web.allow and not _is_loopback(web.listen):
        table.wrong(
            "allow",
            f'is missing, but other machines can reach {web.listen}; list your networks: allow = ["10.0.0.0/8"]',
        )


def _check_steering(web: WebConfig, table: TomlTable) -> None:
    if web.steer_token_file and not web.steer:
        table.wrong("steer_token_file", "has no effect without steer = true")
    if not web.steer:
        return
    if not (web.steer_token_file or web.token_file or web.password_file):
        table.wrong("steer", "requires credentials; set steer_token_file, token_file, or user and password_file")
    if web.listen and not web.tls_cert and not _is_loopback(web.listen):
        what = f"requires HTTPS, because other machines can reach {web.listen}; set tls_cert and tls_key"
        table.wrong("steer", f"{what}, or listen on a loopback address")


def _is_loopback(listen: Endpoint) -> bool:
    return ipaddress.ip_address(listen.host.partition("%")[0]).is_loopback
