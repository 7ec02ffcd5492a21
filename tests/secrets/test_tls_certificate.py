"""Tests of the server's certificate: what is refused, what is warned of, and which clients accept it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from lbdns.config.web_section import WebConfig
from lbdns.secrets.tls_certificate import client_context, server_context
from lbdns_shared.errors import ConfigError
from tests.certificates import PASSWORD, self_signed


def web(certificate: Path, key: Path) -> WebConfig:
    return WebConfig(tls_cert=certificate, tls_key=key)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Perform a handshake in memory, and return the protocol version. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname="other"), server.wrap_bio(up, down, server_side=True)]
    version = ends[0].version
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    return version()


def test_no_certificate() -> None:
    assert server_context(WebConfig()) == (None, [])


def test_a_good_certificate(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context, warnings = server_context(web(certificate, key))
    assert context is not None
    assert warnings == []
    assert handshake(context, client_context(certificate)) == "TLSv1.3"


def test_clients_accept_only_the_first_certificate_of_the_file(tmp_path: Path) -> None:
    ours, theirs = self_signed(tmp_path, "ours"), self_signed(tmp_path, "theirs")
    ours[0].write_text(ours[0].read_text() + theirs[0].read_text())
    server, _ = server_context(web(*ours))
    other, _ = server_context(web(*theirs))
    assert server is not None
    assert other is not None
    handshake(server, client_context(ours[0]))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(other, client_context(ours[0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    server, _ = server_context(web(certificate, key))
    assert server is not None
    client = client_context(certificate)
    client.minimum_version, client.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    client.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


@pytest.mark.parametrize(
    ("begin", "days", "warning"),
    [
        (-9.0, -1.0, "clients will reject the certificate: certificate has expired"),
        (2.0, 90.0, "clients will reject the certificate: certificate is not yet valid"),
        (-9.0, 9.4, "the certificate expires in 9 days; renew it"),
    ],
)
def test_certificates_that_clients_reject_now_or_soon(tmp_path: Path, begin: float, days: float, warning: str) -> None:
    certificate, key = self_signed(tmp_path, days=days, begin=begin)
    assert server_context(web(certificate, key))[1] == [f"{certificate}: [web] tls_cert: {warning}"]


def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    key.chmod(0o644)
    (warning,) = server_context(web(certificate, key))[1]
    assert warning.startswith(f"{key}: [web] tls_key: ")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    _, stranger = self_signed(tmp_path, "stranger")
    _, locked = self_signed(tmp_path, "locked", encrypted=True)
    (empty := tmp_path / "empty").touch(0o600)
    (damaged := tmp_path / "damaged").write_text(re.sub(r"(?m)^M.*$", "AAAA", certificate.read_text(), count=1))
    (chain := tmp_path / "chain").write_text(certificate.read_text() * 2 + damaged.read_text())
    missing = tmp_path / "missing"
    for files, message in (
        ((missing, key), f"{missing}: cannot read the [web] tls_cert: No such file"),
        ((certificate, missing), f"{missing}: cannot read the [web] tls_key: No such file"),
        ((key, key), f"{key}: [web] tls_cert: the file contains no certificate"),
        ((damaged, key), f"{damaged}: [web] tls_cert: certificate 1 is damaged"),
        ((chain, key), f"{chain}: [web] tls_cert: certificate 3 is damaged"),
        ((certificate, stranger), f"{stranger}: [web] tls_key: the key does not belong to the certificate in"),
        ((certificate, certificate), f"{certificate}: [web] tls_key: the file contains no private key"),
        ((certificate, empty), f"{empty}: [web] tls_key: "),
        ((certificate, locked), f"{locked}: [web] tls_key: the key is encrypted; store it without a password"),
        ((tmp_path, key), f"{tmp_path}: cannot read the [web] tls_cert: Is a directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            server_context(web(*files))
        assert str(caught.value).startswith(message)
        assert PASSWORD.decode() not in str(caught.value)
