"""Tests of what the kernel says about full queues: parsers by table, and a listening socket that overflows."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

import pytest
from pyroute2 import IPRoute, netns

from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.control_groups import ControlGroup
from lbdns_tools.lab.machines.network_namespaces import inside
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.measuring import kernel_limits
from lbdns_tools.lab.measuring.kernel_limits import (
    CONNTRACK,
    COUNTERS,
    DESCRIPTORS,
    FIGURES,
    PEAKS,
    KernelWatch,
    most_descriptors,
    read_counters,
    read_sockets,
    shortages,
)
from tests.needs import needs

IN_NAMESPACE = needs(root=True, namespaces=True)
NETSTAT = "TcpExt: ListenOverflows ListenDrops Other\nTcpExt: 4 7 9\nIpExt: ListenDrops\nIpExt: 99\n"
SNMP = "Tcp: ActiveOpens\nTcp: 3\nUdp: InErrors RcvbufErrors SndbufErrors\nUdp: 1 2 3\n"


def test_counters_are_read_by_protocol_and_name() -> None:
    assert read_counters([NETSTAT, SNMP]) == {
        "listen_overflows": 4.0, "listen_drops": 7.0, "udp_receive_drops": 2.0, "udp_send_drops": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize("texts", [[], [""], ["TcpExt: ListenDrops\n"], ["\n\n"], [SNMP[:20]]])
def test_incomplete_texts_yield_fewer_counters(texts: list[str]) -> None:
    assert read_counters(text for text in texts if text.strip()) == {}


def test_sockets_of_both_families_are_added() -> None:
    four = "sockets: used 220\nTCP: inuse 31 orphan 2 tw 51 alloc 39 mem 81\nUDP: inuse 5 mem 0\n"
    assert read_sockets([four, "TCP6: inuse 9\nUDP6: inuse 1\n"]) == {
        "tcp_sockets": 40.0, "time_wait": 51.0, "orphans": 2.0,
    }  # fmt: skip
    assert read_sockets([]) == {}


def test_the_process_closest_to_its_limit_counts(tmp_path: Path) -> None:
    for pid, (limit, count) in {1: ("100", 3), 2: ("10", 9), 3: ("unlimited", 50)}.items():
        (tmp_path / f"{pid}" / "fd").mkdir(parents=True)
        (tmp_path / f"{pid}" / "limits").write_text(f"Limit  Soft  Hard\nMax open files   {limit}  4096  files\n")
        for number in range(count):
            (tmp_path / f"{pid}" / "fd" / f"{number}").touch()
    assert most_descriptors([1, 3], tmp_path) == 3.0
    assert most_descriptors([1, 2, 3, 4], tmp_path) == 90.0  # 4 has ended
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < most_descriptors([os.getpid()]) <= 100 * 1e6 / soft


@pytest.mark.parametrize(
    ("figures", "clauses"),
    [
        ({}, []),
        (dict.fromkeys(FIGURES, 0.0), []),
        ({"listen_overflows": 1234.0, "listen_drops": 1234.0}, ["bilbo: the queue for accept() was full 1,234 times"]),
        (
            {"listen_overflows": 2.0, "listen_drops": 5.0},
            [
                "bilbo: the queue for accept() was full 2 times",
                "bilbo: 3 connections were dropped for other reasons while they were opened",
            ],
        ),
        ({CONNTRACK: 94.9, DESCRIPTORS: 94.9, "time_wait": 1e6, "tcp_sockets": 1e6, "syn_retransmissions": 9.0}, []),
        (
            {CONNTRACK: 100.0, DESCRIPTORS: 95.2},
            ["bilbo: the table of tracked connections was 100 % full", "bilbo: a process used 95 % of its descriptors"],
        ),
    ],
)
def test_what_was_full_is_said(figures: dict[str, float], clauses: list[str]) -> None:
    assert shortages({"bilbo": figures}) == clauses


@pytest.mark.parametrize("figure", [name for name in COUNTERS if name not in ("listen_drops", "syn_retransmissions")])
def test_every_drop_is_said(figure: str) -> None:
    assert len(shortages({"frodo": {figure: 1.0}})) == 1


@pytest.fixture
def namespace() -> Iterator[str]:
    """A new network namespace, so that no other program changes its counters."""
    name = f"lbdns-test-{uuid.uuid4().hex[:12]}"
    netns.create(name)
    try:
        inside(name, _bring_loopback_up)
        yield name
    finally:
        netns.remove(name)


def _bring_loopback_up() -> None:
    with IPRoute() as route:
        route.link("set", index=1, state="up")


class OwnProcess:
    """The part of a control group that is asked for its processes."""

    def pids(self) -> set[int]:
        return {os.getpid()}


def placed(namespace: str) -> PlacedMachine:
    return PlacedMachine(LabMachine("bilbo", "web", ("127.0.0.1",), "::1"), namespace, cast(ControlGroup, OwnProcess()))


@IN_NAMESPACE
def test_a_queue_that_overflows_is_found(namespace: str) -> None:
    with ExitStack() as stack, KernelWatch({"bilbo": placed(namespace)}) as watch:
        listener = stack.enter_context(closing(inside(namespace, lambda: socket.create_server(("127.0.0.1", 0)))))
        listener.listen(1)
        for _ in range(6):
            client = stack.enter_context(closing(inside(namespace, socket.socket)))
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        (figures,) = watch.figures().values()
    assert figures["listen_overflows"] >= 1
    assert figures["tcp_sockets"] >= 2
    assert set(figures) >= {*PEAKS} - {CONNTRACK}
    assert shortages({"bilbo": figures})[0].startswith("bilbo: the queue for accept() was full ")


@IN_NAMESPACE
def test_other_namespaces_do_not_count(namespace: str) -> None:
    sender = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); " \
             "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304); " \
             "[s.sendto(bytes(1000), s.getsockname()) for _ in range(100)]"  # fmt: skip
    with KernelWatch({"bilbo": placed(namespace)}) as watch:
        subprocess.run([sys.executable, "-c", sender], check=True)
        elsewhere = watch.figures()["bilbo"]["udp_receive_drops"]
        inside(namespace, lambda: exec(sender, {}))
        assert elsewhere == 0
        assert watch.figures()["bilbo"]["udp_receive_drops"] > 0


def test_a_kernel_without_connection_tracking_has_one_figure_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_limits, "_NETFILTER", Path("/nonexistent"))
    with ExitStack() as stack:
        files = kernel_limits._MachineFiles(stack)
        assert CONNTRACK not in files.gauges()
        assert "tcp_sockets" in files.gauges()
