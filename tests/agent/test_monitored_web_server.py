"""Tests of the monitored web server: finding it, its accept queues, its CPU time, and its termination."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.cgroup.service_cgroup import ServiceCgroup
from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver import web_server_processes
from lbdns_agent.webserver.listening_sockets import ListeningSocketReader
from lbdns_agent.webserver.monitored_web_server import MonitoredWebServer
from tests.agent.waiting import until
from tests.agent.web import ForkingServer
from tests.needs import needs

LOCAL = bytes((127, 0, 0, 1))


def at(port: int, address: bytes = LOCAL) -> MonitoredWebServer:
    return MonitoredWebServer(lambda: (address,), port)


@contextlib.contextmanager
def connected(count: int, *where: tuple[str, int]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for address in where:
            for _ in range(count):
                stack.enter_context(socket.create_connection(address))
        yield


def test_connections_waiting_at_the_port_are_counted() -> None:
    with ForkingServer() as server:
        web = at(server.port)
        assert web.listen_queue() == 0
        with connected(3, ("127.0.0.1", server.port)):
            assert web.listen_queue() == 0, "within a round nothing is read twice"
            web.start_round()
            assert web.listen_queue() == 3


def test_whether_it_listens() -> None:
    with ForkingServer(children=0) as server:
        web = at(server.port)
        assert web.is_listening() is True
        web.listen_queue()  # from now on its sockets are known
        assert web.is_listening() is True
        # A restart that keeps the port, but not the socket
        server.do("server.close()")
        assert web.is_listening() is False
        server.do(f"server = socket.create_server(('127.0.0.1', {server.port}))")
        assert web.is_listening() is True
    assert web.is_listening() is False


def test_several_sockets_at_one_port_count_as_listening_while_one_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as first:
        port = first.getsockname()[1]
        web = at(port)
        with socket.create_server(("127.0.0.1", port), reuse_port=True):
            web.listen_queue()
            assert web.is_listening() is True
        assert web.is_listening() is True
    assert web.is_listening() is False


@pytest.mark.parametrize("address", [bytes((192, 0, 2, 1)), b""], ids=["another host", "not known yet"])
def test_whether_it_listens_is_unknown(address: bytes) -> None:
    assert MonitoredWebServer(lambda: (address,) if address else (), 80).is_listening() is None


def test_without_sock_diag_nobody_looks_ten_times_a_second(tmp_path: Path) -> None:
    assert MonitoredWebServer(lambda: (LOCAL,), 80, str(tmp_path)).is_listening() is None


def test_the_other_ports_of_the_same_server_count_too() -> None:
    with ForkingServer() as server:
        server.do("other = socket.create_server(('127.0.0.1', 0)); open('/dev/null')")
        web = at(server.port)
        web.cpu_seconds()
        # A port that the server opens later is found when all sockets are looked at again
        server.do("third = socket.create_server(('127.0.0.1', 0))")
        ports = [port for port in listening_ports(server.pid) if port != server.port]
        assert len(ports) == 2
        with connected(2, *(("127.0.0.1", port) for port in ports)):
            web.start_round()
            web._next_full_read = 0.0
            assert web.listen_queue() == 4


def listening_at(port: int) -> list[int]:
    return [listener.port for listener in ListeningSocketReader().read_all() if listener.port == port]


def listening_ports(pid: int) -> list[int]:
    inodes = {
        os.readlink(f"/proc/{pid}/fd/{fd}")[8:-1]
        for fd in os.listdir(f"/proc/{pid}/fd")
        if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
    }
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes]


def test_servers_at_one_port_of_several_addresses_are_told_apart() -> None:
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = one.getsockname()[1]
        stack.enter_context(socket.create_server(("127.0.0.5", port)))
        with connected(2, ("127.0.0.5", port)):
            assert at(port).listen_queue() == 2, "one process holds both: they are one server"
        server = stack.enter_context(ForkingServer(address="127.0.0.6"))
        stack.enter_context(socket.create_server(("127.0.0.7", server.port)))
        with connected(2, ("127.0.0.7", server.port)):
            assert at(server.port, bytes((127, 0, 0, 6))).listen_queue() == 0


@pytest.mark.parametrize("listen", ["0.0.0.0", pytest.param("::", marks=needs(ipv6=True))])
def test_a_server_that_listens_everywhere_is_found_by_any_local_address(listen: str) -> None:
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with socket.create_server((listen, 0), family=family, dualstack_ipv6=":" in listen) as server:
        port = server.getsockname()[1]
        with connected(2, ("127.0.0.1", port)):
            assert at(port).listen_queue() == 2


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (LOCAL, r"nothing listens on port \d+ of 127\.0\.0\.1"),
        (bytes((192, 0, 2, 1)), "on another host"),
        (b"", "not known yet"),
    ],
)
def test_why_there_is_nothing(address: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    web = MonitoredWebServer(lambda: (address,) if address else (), port)
    for ask in (web.listen_queue, web.cpu_seconds):
        with pytest.raises(MissingValueError, match=reason):
            ask()


def test_cpu_seconds_of_the_server_and_a_new_one_after_its_end() -> None:
    burn = "import time; exec('end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass')"
    with ForkingServer() as server:
        web = at(server.port)
        before = web.cpu_seconds()
        server.do(burn)
        web.start_round()
        assert web.cpu_seconds() - before == pytest.approx(0.2, abs=0.06)
        port = server.port
    until(lambda: port not in listening_at(port))
    with ForkingServer(port=port) as server:
        web.start_round()
        assert web.cpu_seconds() < before + 0.2, "the time of the new server, which has done nothing"
        server.do(burn)
        web.start_round()
        assert web.cpu_seconds() >= 0.2


def test_processes_that_may_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []

    def find_nobody(proc: str, inodes: object) -> tuple[int, ...]:
        searches.append(inodes)
        return ()

    monkeypatch.setattr(web_server_processes, "find_socket_owners", find_nobody)
    with ForkingServer() as server:
        web = at(server.port)
        with connected(2, ("127.0.0.1", server.port)):
            for _ in range(5):
                web.start_round()
                with pytest.raises(MissingValueError, match="CAP_SYS_PTRACE"):
                    web.cpu_seconds()
                assert web.listen_queue() == 2, "the port's queue is known all the same"
    assert len(searches) == 1, "all processes are not searched again and again"


def test_the_sum_goes_on_when_its_source_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counter(ServiceCgroup):
        def seconds(self) -> float:
            if broken:
                raise OSError("the group is gone")
            return 1000.0

    broken = False
    group: list[ServiceCgroup | None] = [None]
    monkeypatch.setattr(web_server_processes, "find_service_cgroup", lambda roots, pids, proc: group[0])
    monkeypatch.setattr(web_server_processes, "GROUP_CHECK_INTERVAL", 0.0)
    with ForkingServer() as server:
        web = at(server.port)
        first = web.cpu_seconds()
        assert first < 60
        group[0] = Counter(Path("/x"), True)
        second = web.cpu_seconds()
        assert second == pytest.approx(first, abs=0.1)
        broken = True
        assert web.cpu_seconds() == pytest.approx(second, abs=0.1)
