"""Tests of the veth pair between a server and a load generator."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

import pytest

from lbdns_tools.bench.dns.veth_pair import CLIENT, SERVER, schedstat_seconds, veth_pair
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.lab.machines.network_namespaces import inside
from tests.needs import needs


def test_cpu_time_is_read() -> None:
    assert schedstat_seconds("1500000000 20 3\n") == 1.5


def test_root_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BenchmarkError, match="root"), veth_pair(0, 0):
        pass


@needs(programs=("ip", "ethtool"), root=True, namespaces=True)
def test_packets_cost_time_of_the_kernel_s_thread() -> None:
    core = min(os.sched_getaffinity(0))
    with veth_pair(core, core) as (server, client):
        assert os.sched_getaffinity(server.thread) == os.sched_getaffinity(client.thread) == {core}
        with (
            inside(server.namespace, partial(bound, SERVER)) as receiver,
            inside(client.namespace, partial(bound, CLIENT)) as sender,
        ):
            before = server.kernel_seconds()
            for number in range(100):
                sender.sendto(bytes([number]), (SERVER, receiver.getsockname()[1]))
                assert receiver.recv(10) == bytes([number])
            assert server.kernel_seconds() > before
        with pytest.raises(BenchmarkError, match=r"ip .*no-such"):
            server.run("ip", "link", "show", "no-such")
        assert Path("/run/netns", server.namespace).exists()
    assert not [end for end in (server, client) if Path("/run/netns", end.namespace).exists()]


def bound(host: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(10.0)
    sock.bind((host, 0))
    return sock
