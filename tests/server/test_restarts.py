"""Tests of restarts by a service manager that keeps the sockets: the next process answers all waiting queries."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lbdns.client.control_client import send_command
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.bench.dns.windowed_load import WindowedLoad
from lbdns_tools.free_ports import free_ports
from tests.answering.asking import make_query, read
from tests.needs import needs
from tests.server.clients import ask_udp
from tests.server.fake_service_manager import FakeServiceManager
from tests.server.running import write_config

HERE = "127.0.0.1"
RATE = 2000.0  # queries/s
#: Queries in flight from each of the 32 ports. The load generator pauses if a start takes longer than 3 s, so that a
#: busy machine need not make up for many queries
WINDOW = 190
PATIENCE = 60.0  # s
QUERY = make_query("round.robin.hobbit")


class ManagedServer:
    """``lbdns serve`` under a service manager. It answers on ``dns`` and receives reports on ``reports``."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.workers = folder, workers
        self.manager = FakeServiceManager(folder)
        self.dns, self.reports = (Endpoint(HERE, port) for port in free_ports(2))
        self.configure()
        self.process = self.start()

    def configure(self, *more: Endpoint) -> None:
        path = write_config(self.folder)
        listen = ", ".join(f'"{each}"' for each in (self.dns, *more))
        text = path.read_text().replace('listen = ["127.0.0.1:0"]', f"listen = [{listen}]", 1)
        text = text.replace('listen = ["127.0.0.1:0"]', f'listen = ["{self.reports}"]', 1)
        path.write_text(text + "[rate_limit]\nresponses_per_second = 0\n")

    def start(self) -> subprocess.Popen[bytes]:
        config = str(self.folder / "lbdns.toml")
        process = self.manager.start(["-m", "lbdns", "serve", "-c", config, "--workers", str(self.workers)])
        self.manager.receive_until("READY=1")
        return process

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self.process = self.start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.manager.close()


@pytest.fixture(params=[1, 2])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ManagedServer]:
    found = ManagedServer(tmp_path, request.param)
    yield found
    found.close()


def stored(server: ManagedServer) -> list[tuple[str, int]]:
    return sorted((sock.type.name, sock.getsockname()[1]) for sock in server.manager.stored.values())


def places(server: ManagedServer, workers: int) -> list[tuple[str, int]]:
    dns = server.dns.port
    return sorted([*workers * [("SOCK_DGRAM", dns), ("SOCK_STREAM", dns)], ("SOCK_DGRAM", server.reports.port)])


@needs(root=True)  # for a receive buffer that holds the queries of several seconds
def test_no_query_is_lost_in_restarts(server: ManagedServer) -> None:
    load = WindowedLoad(server.dns.port, 1, RATE, window=WINDOW, give_up=PATIENCE, query=QUERY)
    load.goes_on.set()
    with ThreadPoolExecutor(1) as sender:
        tally = sender.submit(load.run)
        try:
            server.restart()
            server.restart()
        finally:
            load.goes_on.clear()
        counted = tally.result()
    assert (counted.lost, counted.unexpected) == (0, 0)
    assert counted.answered == counted.sent
    assert counted.sent > RATE / 2
    assert stored(server) == places(server, server.workers)


async def test_after_a_crash_the_next_process_answers_what_waits(server: ManagedServer) -> None:
    server.process.kill()
    server.process.wait(PATIENCE)
    asked = asyncio.create_task(ask_udp(server.dns, QUERY))
    await asyncio.to_thread(lambda: setattr(server, "process", server.start()))
    assert read(await asked).answer


async def test_sockets_that_are_no_longer_configured_are_closed(server: ManagedServer) -> None:
    (port,) = free_ports(1)
    more = Endpoint(HERE, port)
    server.configure(more)
    await asyncio.to_thread(send_command, server.folder / "control.sock", "reload")
    server.manager.receive_until("READY=1")
    added = sorted([*places(server, server.workers), *server.workers * [("SOCK_DGRAM", port), ("SOCK_STREAM", port)]])
    assert stored(server) == added
    server.configure()
    server.restart()
    assert stored(server) == places(server, server.workers)
    assert read(await ask_udp(server.dns, QUERY)).answer
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HERE, port)


async def test_the_number_of_workers_may_change(server: ManagedServer) -> None:
    server.workers = 3 - server.workers
    server.restart()
    assert stored(server) == places(server, 2), "TCP connections may wait in sockets that are no longer needed"
    for _ in range(20):  # from different ports, so that every socket gets some
        assert read(await ask_udp(server.dns, QUERY)).answer


async def test_a_successor_keeps_the_store_up_to_date(server: ManagedServer) -> None:
    old, config = server.process, str(server.folder / "lbdns.toml")
    command = ["-m", "lbdns", "serve", "-c", config, "--workers", "2", "--take-over"]
    server.process = server.manager.start(command, pass_sockets=False)
    server.manager.receive_until(f"READY=1\nMAINPID={server.process.pid}")
    assert old.wait(PATIENCE) == 0
    assert stored(server) == places(server, 2)
