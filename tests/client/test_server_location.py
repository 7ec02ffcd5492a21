"""How commands find a server: through its configuration or, without a configuration, at the usual locations."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.client.http_client import TOKEN_VARIABLE, HttpLocation, find_credentials
from lbdns.client.server_location import dns_server_of, http_location, serves_no_http, url_of
from lbdns.command_line.common_options import control_path
from lbdns.secrets.http_credentials import NO_CREDENTIALS
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError


def configuration(folder: Path, listen: str) -> Path:
    path = folder / "lbdns.toml"
    path.write_text(f'[[zone]]\nname = "x"\nfile = "x"\n[web]\nlisten = "{listen}"\nallow = ["192.0.2.0/24"]\n')
    return path


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:8053", "http://127.0.0.1:8053"),
        ("192.0.2.1:80", "http://192.0.2.1:80"),
        ("0.0.0.0:8053", "http://127.0.0.1:8053"),
        ("[::]:8053", "http://[::1]:8053"),
        ("[2001:db8::1]:8053", "http://[2001:db8::1]:8053"),
    ],
)
def test_what_listens_everywhere_is_asked_on_the_loopback(tmp_path: Path, listen: str, url: str) -> None:
    assert url_of(configuration(tmp_path, listen)) == url


def test_an_error_in_another_section_does_not_matter(tmp_path: Path) -> None:
    path = configuration(tmp_path, "127.0.0.1:8054")
    path.write_text(path.read_text() + "[[pool]]\nname = 3\n")
    assert url_of(path) == "http://127.0.0.1:8054"
    assert not serves_no_http(path)
    assert find_credentials(path) == NO_CREDENTIALS
    assert dns_server_of(path).port == 53
    assert control_path(path, None) == Path("/run/lbdns/control.sock")
    path.write_text(path.read_text() + "[server]\nworkres = 2\n")
    for find in (dns_server_of, lambda path: control_path(path, None)):
        with pytest.raises(ConfigError, match=r"lbdns\.toml:\d+: \[server\] workres") as caught:
            find(path)
        assert any("[pool" in finding for finding in caught.value.findings), "all errors are listed"
    assert url_of(path) == "http://127.0.0.1:8054"


def test_without_a_configuration_no_server_is_guessed(tmp_path: Path) -> None:
    for find in (url_of, serves_no_http, lambda path: control_path(path, None), lambda path: http_location(None, path)):
        with pytest.raises(ConfigError, match=r"lbdns\.toml: there is no such file; .*-c FILE or LBDNS_CONFIG"):
            find(tmp_path / "lbdns.toml")


def test_a_server_without_http(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='"off"'):
        url_of(configuration(tmp_path, "off"))


@pytest.mark.parametrize(
    ("listen", "server"),
    [
        ("127.0.0.1:5300", Endpoint("127.0.0.1", 5300)),
        ("0.0.0.0:53", Endpoint("127.0.0.1", 53)),
        ("[::]:53", Endpoint("::1", 53)),
    ],
)
def test_queries_go_where_the_configuration_listens(tmp_path: Path, listen: str, server: Endpoint) -> None:
    path = tmp_path / "lbdns.toml"
    path.write_text(f'[server]\nlisten = ["{listen}"]\n[[zone]]\nname = "x"\nfile = "x"\n')
    assert dns_server_of(path) == server


def test_without_a_configuration_queries_go_to_the_first_name_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lbdns.client.server_location.DEFAULT_FILE", str(tmp_path / "lbdns.toml"))
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("# none\nsearch hobbit\nnameserver 192.0.2.53\nnameserver ::1\n")
    assert dns_server_of(tmp_path / "lbdns.toml", resolv_conf) == Endpoint("192.0.2.53", 53)
    with pytest.raises(ConfigError, match="lists no name server; specify a server, such as @"):
        dns_server_of(tmp_path / "lbdns.toml", tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"another\.toml"):
        dns_server_of(tmp_path / "another.toml", resolv_conf)


def test_a_server_with_a_certificate_is_asked_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    path = configuration(tmp_path, "127.0.0.1:8054")
    path.write_text(path.read_text() + 'tls_cert = "web.crt"\ntls_key = "web.key"\n')
    assert http_location(None, path) == HttpLocation("https://127.0.0.1:8054", NO_CREDENTIALS, tmp_path / "web.crt")
    assert http_location("https://ns1:8053", path) == HttpLocation("https://ns1:8053")
    path.write_text(path.read_text().replace('tls_key = "web.key"\n', ""))
    with pytest.raises(ConfigError, match=r"\[web\] tls_key: is missing; tls_cert and tls_key must be set together"):
        url_of(path)
