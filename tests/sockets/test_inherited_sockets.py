"""Tests of sockets from a service manager: they match the configuration, or an error names those that do not."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from lbdns.config import CollectorConfig, Config, WebConfig
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_pair
from lbdns.sockets.inherited_sockets import same_address, sockets_from_service_manager
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_tools.free_ports import free_ports
from tests.answering.asking import make_query, read
from tests.answering.farms import hobbit
from tests.needs import needs, program
from tests.server.clients import ask_tcp, ask_udp
from tests.server.running import write_config
from tests.server.test_dns_server import listen_on

HERE: Final = "127.0.0.1"
CONFIG: Final = hobbit().config


def environment(count: int, pid: int | None = None) -> dict[str, str]:
    return {"LISTEN_PID": str(pid or os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": "x", "OTHER": "stays"}


class Descriptors:
    """Gives sockets consecutive file descriptors, as a service manager does."""

    FIRST: Final = 700

    def __init__(self, *sockets: socket.socket) -> None:
        for place, sock in enumerate(sockets):
            os.dup2(sock.fileno(), self.FIRST + place)
            sock.close()
        self.count = len(sockets)


def config_for(dns: Endpoint, reports: Endpoint, web: Endpoint | None = None) -> Config:
    server = replace(CONFIG.server, listen=(dns,))
    return replace(CONFIG, server=server, collector=CollectorConfig(listen=(reports,)), web=WebConfig(listen=web))


def test_each_finds_its_place_and_the_environment_is_cleared() -> None:
    (dns_udp, dns_tcp), (reports, web) = open_pair(Endpoint(HERE, 0)), open_pair(Endpoint(HERE, 0))
    dns, other = bound_endpoint(dns_udp), bound_endpoint(reports)
    config = config_for(dns, other, other)
    descriptors = Descriptors(reports, dns_tcp, web, dns_udp)
    told = environment(descriptors.count)
    given = sockets_from_service_manager(config, told, Descriptors.FIRST)
    try:
        assert [(g.purpose, g.asked, g.sock.type) for g in given] == [
            ("reports", other, socket.SOCK_DGRAM),
            ("dns", dns, socket.SOCK_STREAM),
            ("web", other, socket.SOCK_STREAM),
            ("dns", dns, socket.SOCK_DGRAM),
        ]
        assert told == {"OTHER": "stays"}
        for g in given:
            assert not g.sock.get_inheritable()
            assert not g.sock.getblocking()
    finally:
        for g in given:
            g.sock.close()


def test_sockets_without_a_use_are_named() -> None:
    udp, tcp = open_pair(Endpoint(HERE, 0))
    deaf = socket.socket()
    deaf.bind((HERE, 0))
    here, deaf_at = bound_endpoint(udp), bound_endpoint(deaf)
    descriptors = Descriptors(udp, tcp, deaf, socket.socket(socket.AF_UNIX))
    config = config_for(deaf_at, here)
    with pytest.raises(ConfigError) as caught:
        sockets_from_service_manager(config, environment(descriptors.count), Descriptors.FIRST)
    said = str(caught.value)
    assert f"TCP {here};" in said
    assert f"TCP {deaf_at}, which is not listening" in said
    assert "descriptor 703, which is not bound to an address" in said
    assert f"UDP {here}" not in said, "reports are received there"
    for descriptor in range(Descriptors.FIRST, Descriptors.FIRST + descriptors.count):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)


@pytest.mark.parametrize(
    "change", [{"LISTEN_PID": "1"}, {"LISTEN_PID": ""}, {"LISTEN_FDS": "many"}, {"LISTEN_FDS": "0"}]
)
def test_what_is_meant_for_others_is_left_alone(change: dict[str, str]) -> None:
    told = {**environment(3), **change}
    assert sockets_from_service_manager(CONFIG, told, Descriptors.FIRST) == []
    assert "LISTEN_PID" not in told


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Endpoint("::", 53), Endpoint("::0", 53), True),
        (Endpoint("::", 53), Endpoint("::", 54), False),
        (Endpoint("0.0.0.0", 53), Endpoint("::", 53), False),
        (Endpoint("2001:db8::1", 53), Endpoint("2001:DB8:0::1", 53), True),
    ],
)
def test_the_same_place_however_it_is_written(one: Endpoint, other: Endpoint, same: bool) -> None:
    assert same_address(one, other) is same


# As processes


@needs(programs=("systemd-socket-activate",))
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_server_is_started_by_its_sockets(tmp_path: Path, workers: str) -> None:
    (port,) = free_ports(1)
    here = Endpoint(HERE, port)
    listen_on(tmp_path, here)
    process = await asyncio.create_subprocess_exec(
        program("systemd-socket-activate"), "-l", str(here), "-E", "PATH",
        sys.executable, "-m", "lbdns", "serve", "-c", str(tmp_path / "lbdns.toml"), "--workers", workers,
        cwd=Path(__file__).parents[2], stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            while True:  # the first connection starts it, and waits in its socket meanwhile
                try:
                    assert read(await ask_tcp(here, make_query("best.hobbit"))).answer
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)
        assert read(await ask_udp(here, make_query("best.hobbit"))).answer, "UDP was not given, so it was opened"
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) == 0


def test_a_server_refuses_sockets_that_it_has_no_use_for(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    code = (
        "import os, socket, sys\n"
        "sock = socket.socket(); sock.bind(('127.0.0.1', 0)); sock.listen()\n"
        "os.dup2(sock.fileno(), 3); os.set_inheritable(3, True)\n"
        "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}\n"
        f"os.execv(sys.executable, [sys.executable, '-m', 'lbdns', 'serve', '-c', {str(config)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "the configuration does not use: TCP 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr
