"""Tests of restarts by a service manager that keeps the collector's sockets: no report is lost meanwhile."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.free_ports import free_ports
from tests.collector.collector_fixtures import ADDRESSES, KEY, datagram, write_config
from tests.collector.collector_process import eventually
from tests.server.fake_service_manager import FakeServiceManager

HERE = "127.0.0.1"
PATIENCE = 60.0  # s
BURST = 50  # reports of each member that arrive during a restart


class ManagedCollector:
    """``lbdns-collector`` under a service manager. It receives reports on the port ``reports``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = FakeServiceManager(folder)
        self.reports, self.web = free_ports(2)
        self.seq = 0
        self.configure()
        self.process = self.start()

    def configure(self, *more: int) -> None:
        (self.folder / "report.key").write_text(KEY.line() + "\n")
        (self.folder / "report.key").chmod(0o600)
        listen = ", ".join(f'"{HERE}:{port}"' for port in (self.reports, *more))
        reports = f'listen = [{listen}]\nkey_file = "report.key"'
        self.path = write_config(self.folder, collector=reports, web=f"{HERE}:{self.web}")

    def start(self) -> subprocess.Popen[bytes]:
        process = self.manager.start(["-m", "lbdns_collector", "-c", str(self.path)])
        self.manager.receive_until("READY=1")
        return process

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def send(self, count: int = 1) -> None:
        """Send ``count`` reports of every member from the member's own address."""
        for host, address in ADDRESSES.items():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((address, 0))
                for number in range(1, count + 1):
                    report = datagram(host, seq=self.seq + number, at=time.time())
                    sender.sendto(report, (HERE, self.reports))
        self.seq += count

    def received(self) -> int:
        """Return how many reports have been received since the start, accepted or not."""
        with urllib.request.urlopen(f"http://{HERE}:{self.web}/metrics", timeout=PATIENCE) as response:
            text = response.read().decode()
        return sum(int(float(value)) for value in re.findall(r"^lbdns_reports_total\{.*\} (\S+)$", text, re.MULTILINE))

    def stored(self) -> list[tuple[str, int]]:
        return sorted((sock.type.name, sock.getsockname()[1]) for sock in self.manager.stored.values())

    def places(self, *more: int) -> list[tuple[str, int]]:
        return sorted([("SOCK_STREAM", self.web), *(("SOCK_DGRAM", port) for port in (self.reports, *more))])

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.manager.close()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[ManagedCollector]:
    found = ManagedCollector(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_report_is_lost_in_a_restart(collector: ManagedCollector, how: signal.Signals) -> None:
    collector.send()
    eventually(lambda: collector.received() == len(ADDRESSES), "the reports arrive")
    for _ in range(2):
        collector.stop(how)
        collector.send(BURST)
        collector.process = collector.start()
        eventually(lambda: collector.received() == BURST * len(ADDRESSES), "the reports have waited")
    assert collector.stored() == collector.places()


def test_sockets_that_are_no_longer_configured_are_closed(collector: ManagedCollector) -> None:
    (port,) = free_ports(1)
    collector.configure(port)
    collector.process.send_signal(signal.SIGHUP)
    collector.manager.receive_until("READY=1")
    assert collector.stored() == collector.places(port)
    collector.configure()
    collector.stop()
    collector.process = collector.start()
    assert collector.stored() == collector.places()
    collector.send()
    eventually(lambda: collector.received() == len(ADDRESSES), "reports still arrive")


def test_a_socket_for_dns_is_an_error(collector: ManagedCollector) -> None:
    """A socket unit must not give the collector a socket that it would never read."""
    collector.stop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HERE, 0))
        port = sock.getsockname()[1]
        text = collector.path.read_text()
        collector.path.write_text(text.replace("[server]\n", f'[server]\nlisten = ["{HERE}:{port}"]\n'))
        collector.manager.stored["of-a-unit"] = sock.dup()
        collector.process = collector.manager.start(["-m", "lbdns_collector", "-c", str(collector.path)])
        assert collector.process.wait(PATIENCE) == 2
