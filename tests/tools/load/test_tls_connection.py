"""Tests of TLS connections with a local server."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_plan import ClosedLoop, ResolveRule
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.tls_connection import tls_context
from tests.certificates import self_signed
from tests.tools.load.local_runs import crowd_of, run_of
from tests.tools.load.loopback_servers import GOOD, PAGE, Web, answering, names, resetting, stalling, web

LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path, "best.hobbit")[0]


@pytest.fixture
def context(certificate: Path) -> ssl.SSLContext:
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return found


def load(server: Web, host: str = "best.hobbit", **changes: object) -> RequestTally:
    """Send 12 requests of 3 clients, which resolve names with a DNS server."""
    with names({f"{name}.hobbit.": ("A 127.0.0.1",) for name in ("best", "other")}) as dns:
        changes["resolve"] = ResolveRule("connection", server=Endpoint("127.0.0.1", dns.port))
        return crowd_of(run_of(ClosedLoop(3, requests=12), f"https://{host}:{server.port}/", **changes)).tally


def test_each_connection_has_a_handshake(certificate: Path, context: ssl.SSLContext) -> None:
    with web(answering(GOOD), context=context) as server:
        tally = load(server, ca_file=certificate)
    assert (tally.ok, tally.bytes, server.connections) == (12, 12 * len(PAGE), 12)
    assert tally.tls.count == tally.connect.count == tally.response.count == 12
    assert tally.connect.sum + tally.tls.sum + tally.response.sum + tally.transfer.sum <= tally.latency.sum
    assert b"Host: best.hobbit:%d" % server.port in server.heads[0]


def test_kept_connections_keep_their_session(certificate: Path, context: ssl.SSLContext) -> None:
    with web(answering(LONG, keep=True), context=context) as server:
        tally = load(server, ca_file=certificate, keep_alive=True)
    assert (tally.ok, tally.bytes) == (12, 12_000_000)
    # A session ticket that arrives late may end an idle connection
    assert 3 <= server.connections == tally.connections == tally.tls.count <= 12


@pytest.mark.parametrize(
    ("host", "trusts", "insecure", "ok"),
    [
        ("best.hobbit", True, False, True),
        ("other.hobbit", True, False, False),  # the certificate has another name
        ("127.0.0.1", True, False, False),
        ("best.hobbit", False, False, False),  # the system does not trust the certificate
        ("other.hobbit", False, True, True),
        ("127.0.0.1", False, True, True),
    ],
)
def test_certificates_are_verified(
    certificate: Path, context: ssl.SSLContext, host: str, trusts: bool, insecure: bool, ok: bool
) -> None:
    with web(answering(GOOD), context=context) as server:
        tally = load(server, host, ca_file=certificate if trusts else None, insecure=insecure)
    assert (tally.ok, tally.errors["protocol"]) == ((12, 0) if ok else (0, 12))


def test_failures(certificate: Path, context: ssl.SSLContext) -> None:
    with web(resetting, context=context) as server:
        assert load(server, ca_file=certificate).errors["reset"] == 12
    with web(answering(GOOD[:-1]), context=context) as server:
        assert load(server, ca_file=certificate).errors["protocol"] == 12
    with web(answering(GOOD)) as server:  # without TLS; the server waits for the end of the header
        tally = load(server, ca_file=certificate, timeout_s=0.3)
    assert (tally.ok, tally.tls.count) == (0, 0)
    with web(stalling, context=context) as server:
        assert load(server, ca_file=certificate, timeout_s=0.3).errors["timeout"] == 12
    with pytest.raises(ConfigError, match="--ca-file: /none: cannot read the file"):
        tls_context(Path("/none"), False)
