"""Tests of the Apache configuration that tools and tests use: its settings, and that a real Apache accepts it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools import apache_process
from lbdns_tools.apache_process import PAGES_FOLDER, ApacheSetup, RunningApache, apache, configuration
from tests.needs import needs


def lines_of(httpd: ApacheSetup) -> list[str]:
    return configuration(httpd).splitlines()


@pytest.fixture(params=["prefork", "worker", "event"])
def running(request: pytest.FixtureRequest) -> Iterator[RunningApache]:
    with apache(request.param, keep_alive=request.param == "event") as found:
        yield found


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as response:
        found: str = response.read().decode()
    return found


def test_the_number_of_workers_is_fixed() -> None:
    lines = lines_of(ApacheSetup(Path("/lab/frodo"), Path("/lab/content"), "80", "frodo.hobbit", workers=77))
    for name in ("StartServers", "MinSpareServers", "MaxSpareServers", "ServerLimit", "MaxRequestWorkers"):
        assert f"{name} 77" in lines
    assert {"Listen 80", "ServerName frodo.hobbit", "KeepAlive Off", "ExtendedStatus On"} <= set(lines)
    assert 'DocumentRoot "/lab/content/pages"' in lines
    assert 'ErrorLog "/lab/frodo/error.log"' in lines


def test_apache_decides_on_omitted_settings() -> None:
    text = configuration(ApacheSetup(Path("/f"), Path("/c"), "80", keep_alive=True, extended_status=False))
    assert "Servers" not in text
    assert {"KeepAlive On", "ExtendedStatus Off"} <= set(text.splitlines())


def test_php_programs_run_with_and_without_the_opcode_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apache_process, "php_modules", lambda: [Path("/m/libphp7.4.so"), Path("/m/libphp8.2.so")])
    lines = [line.strip() for line in lines_of(ApacheSetup(Path("/f"), Path("/c"), "80", php=True))]
    assert "LoadModule php_module /m/libphp8.2.so" in lines
    assert 'Alias /php/ "/c/php/"' in lines
    assert lines[lines.index("<Location /php-uncached>") + 1] == "php_admin_flag opcache.enable Off"
    assert not any("php" in line for line in lines_of(ApacheSetup(Path("/f"), Path("/c"), "80")))


def test_https_is_off_unless_there_is_a_certificate() -> None:
    assert not any("SSL" in line or "443" in line for line in lines_of(ApacheSetup(Path("/f"), Path("/c"), "80")))
    lines = lines_of(ApacheSetup(Path("/f"), Path("/c"), "80", certificate=Path("/c.pem")))
    at = lines.index("<VirtualHost *:443>")
    assert lines[at : at + 3] == ["<VirtualHost *:443>", "  SSLEngine on", '  SSLCertificateFile "/c.pem"']
    assert {"Listen 80", "Listen 443"} <= set(lines)
    assert any(line.startswith("LoadModule ssl_module") for line in lines)


@pytest.mark.parametrize(("mpm", "cgi"), [("prefork", "cgi"), ("worker", "cgid"), ("event", "cgid")])
def test_the_module_for_programs_depends_on_the_mpm(mpm: str, cgi: str) -> None:
    lines = lines_of(ApacheSetup(Path("/f"), Path("/c"), "80", mpm=mpm))
    loaded = [line.split()[1] for line in lines if line.startswith("LoadModule")]
    assert [name for name in loaded if name.startswith(("mpm", "cgi"))] == [f"mpm_{mpm}_module", f"{cgi}_module"]
    assert ('ScriptSock "/f/cgid.sock"' in lines) == (cgi == "cgid")


@needs(programs=("apache2",))
def test_it_serves_pages_programs_and_its_status(running: RunningApache) -> None:
    (running.content / PAGES_FOLDER / "other.html").write_text("another\n")
    running.add_program("hello", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello %s' \"$QUERY_STRING\"\n")
    assert get(f"{running.base}/") == "It works\n"
    assert get(f"{running.base}/other.html") == "another\n"
    assert get(f"{running.base}/cgi-bin/hello?frodo") == "hello frodo"
    assert "Total Accesses: " in get(running.status_url)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{running.base}/none")


@needs(programs=("apache2",))
def test_its_files_and_its_port_are_gone_with_it() -> None:
    with apache() as found:
        assert found.content.exists()
    assert not found.content.exists()
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(found.base)


@needs(programs=("apache2",))
def test_a_port_in_use_is_an_error() -> None:
    with (
        apache() as first,
        pytest.raises(LbdnsError, match=r"Apache exited: .*Address already in use"),
        apache(port=first.port),
    ):
        pass


def test_a_missing_apache_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_tools.installed_programs._SYSTEM_FOLDERS", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LbdnsError, match="apache2: not found in PATH or /nowhere"), apache():
        pass
