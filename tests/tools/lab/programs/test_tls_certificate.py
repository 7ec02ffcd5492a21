"""The lab's certificate: programs can read it, and nobody else can."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.programs.tls_certificate import write_certificate
from tests.needs import needs


@needs(programs=("openssl",))
def test_one_file_has_the_certificate_and_its_key(tmp_path: Path) -> None:
    path = write_certificate(tmp_path, "best.hobbit")
    assert [path] == list(tmp_path.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    client = ssl.create_default_context(cafile=path)
    (certificate,) = client.get_ca_certs()
    assert certificate["subjectAltName"] == (("DNS", "best.hobbit"),)


@needs(programs=("openssl",))
def test_a_failure_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match="openssl could not make a certificate: "):
        write_certificate(tmp_path / "none", "hobbit")
