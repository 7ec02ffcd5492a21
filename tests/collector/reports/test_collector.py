"""The collector embedded in an event loop: sockets, snapshots, reloads, and ports in use."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.snapshot import Snapshot
from lbdns.process.apply_configuration import apply
from lbdns_collector.reports.collector import Collector
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from tests.collector.collector_fixtures import KEY, OTHER_KEY, datagram, make_farm, until
from tests.needs import needs


@asynccontextmanager
async def started(farm: Farm, deliver: Callable[[Snapshot], None] | None = None) -> AsyncIterator[Collector]:
    collector = Collector(farm, (KEY,))
    await collector.start(deliver or (lambda snapshot: None))
    try:
        yield collector
    finally:
        await collector.stop()


def send(to: Endpoint, *datagrams: bytes) -> None:
    family = socket.AF_INET6 if ":" in to.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        for data in datagrams:
            sender.sendto(data, (to.host, to.port))


def listen(*endpoints: str) -> str:
    return "listen = [" + ", ".join(f'"{endpoint}"' for endpoint in endpoints) + "]"


async def test_reports_become_snapshots(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    async with started(make_farm(tmp_path), snapshots.append) as collector:
        for seq, host in enumerate(("gandalf", "frodo", "bilbo"), 1):
            send(collector.addresses[0], datagram(host, at=time.time()))
            await until(lambda seq=seq: len(snapshots) == seq)  # type: ignore[misc]
        assert [len(snapshot.readings) for snapshot in snapshots] == [1, 2, 3]
        assert collector.counts["accepted"] == 3
        received = snapshots[-1].readings["bilbo.hobbit"].received
        assert 0 <= time.monotonic() - received < 10


@pytest.mark.parametrize("garbage", [b"", b"\0", b"LBR1", bytes(1200), bytes(1201), bytes(9000)])
async def test_garbage_is_counted_and_nothing_else(tmp_path: Path, garbage: bytes) -> None:
    snapshots: list[Snapshot] = []
    async with started(make_farm(tmp_path), snapshots.append) as collector:
        send(collector.addresses[0], garbage)
        await until(lambda: sum(collector.counts.values()))
        assert snapshots == []
        send(collector.addresses[0], datagram(at=time.time()))
        await until(lambda: snapshots)


async def test_a_burst_is_read_completely(tmp_path: Path) -> None:
    """The socket's buffer holds more datagrams than fit in one batch."""
    async with started(make_farm(tmp_path)) as collector:
        send(collector.addresses[0], *(datagram(seq=n, at=time.time()) for n in range(1, 91)), *[b"x"] * 300)
        await until(lambda: sum(collector.counts.values()) == 390)
        assert (collector.counts["accepted"], collector.counts["malformed"]) == (90, 300)
        assert collector.overflows == 0


async def test_overflows_are_counted(tmp_path: Path) -> None:
    async with started(make_farm(tmp_path)) as collector:
        sock = collector._sockets[0]._socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        send(collector.addresses[0], *[bytes(1000)] * 200)
        await until(lambda: sum(collector.counts.values()) > 0)
        assert collector.overflows + sum(collector.counts.values()) == 200
        assert collector.overflows > 100


async def test_icmp_errors_don_t_stop_it(tmp_path: Path) -> None:
    """Other hosts may send ICMP errors to the port; a socket that only receives must ignore such errors."""
    async with started(make_farm(tmp_path)) as collector:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.bind(("127.0.0.1", 0))
            target = gone.getsockname()
        collector._sockets[0]._socket.sendto(b"x", target)
        send(collector.addresses[0], datagram(at=time.time()))
        await until(lambda: collector.counts["accepted"] == 1)


@needs(ipv6=True)
async def test_both_families_at_one_port(tmp_path: Path) -> None:
    async with started(make_farm(tmp_path, collector=listen("[::]:0"))) as collector:
        six = collector.addresses[0]
        farm = make_farm(tmp_path, collector=listen("[::]:0", f"0.0.0.0:{six.port}"))
        await apply([collector], CheckedConfiguration(farm, (KEY,)))
        send(Endpoint("::1", six.port), datagram(seq=1, at=time.time()))
        send(Endpoint("127.0.0.1", six.port), datagram("frodo", seq=1, at=time.time()))
        await until(lambda: collector.counts["accepted"] == 2)


def taken_port() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


async def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    with taken_port() as taken:
        port = taken.getsockname()[1]
        collector = Collector(make_farm(tmp_path, collector=listen("127.0.0.1:0", f"127.0.0.1:{port}")), (KEY,))
        with pytest.raises(ListenError, match=rf"reports: 127\.0\.0\.1:{port}: the port is in use; .*ss -lunp"):
            await collector.start(lambda snapshot: None)
        assert collector.addresses == ()


async def test_an_address_of_another_machine_is_a_clear_error(tmp_path: Path) -> None:
    collector = Collector(make_farm(tmp_path, collector=listen("192.0.2.1:0")), (KEY,))
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:0: not an address of this machine"):
        await collector.start(lambda snapshot: None)


async def test_reload_moves_to_another_port_and_keeps_all_readings(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    async with started(make_farm(tmp_path, collector=listen("127.0.0.1:0")), snapshots.append) as collector:
        old = collector.addresses[0]
        send(old, datagram(seq=1, at=time.time()))
        await until(lambda: snapshots)
        # Sent before the move and not read until after it: the report counts
        send(old, datagram(seq=2, at=time.time()))
        await apply([collector], CheckedConfiguration(make_farm(tmp_path, collector=listen("127.0.0.2:0")), (KEY,)))
        assert collector.counts["accepted"] == 2
        new = collector.addresses[0]
        assert new.host == "127.0.0.2"
        send(new, datagram(seq=2, at=time.time()), datagram(seq=3, at=time.time()))
        await until(lambda: collector.counts["accepted"] == 3)
        assert collector.counts["replay"] == 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind((old.host, old.port))


@pytest.mark.parametrize(("before", "after"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")])
async def test_reload_between_one_address_and_all(tmp_path: Path, before: str, after: str) -> None:
    async with started(make_farm(tmp_path, collector=listen(f"{before}:0"))) as collector:
        port = collector.addresses[0].port
        await apply([collector], CheckedConfiguration(make_farm(tmp_path, collector=listen(f"{after}:{port}")), (KEY,)))
        assert collector.addresses == (Endpoint(after, port),)
        send(Endpoint("127.0.0.1", port), datagram(at=time.time()))
        await until(lambda: collector.counts["accepted"] == 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):  # no other program can bind the port beside it afterwards
                other.bind(("127.0.0.1", port))


async def test_the_longest_interval_comes_from_the_configuration(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    socket_lines = listen("127.0.0.1:0")
    async with started(make_farm(tmp_path, collector=socket_lines), snapshots.append) as collector:
        send(collector.addresses[0], datagram(seq=1, interval=3600.0, at=time.time()))
        await until(lambda: snapshots)
        assert snapshots[-1].readings["gandalf.hobbit"].interval == 60.0
        longer = make_farm(tmp_path, collector=f"{socket_lines}\nmax_interval = 600.0")
        await apply([collector], CheckedConfiguration(longer, (KEY,)))
        send(collector.addresses[0], datagram(seq=2, interval=3600.0, at=time.time()))
        await until(lambda: snapshots[-1].readings["gandalf.hobbit"].interval == 600.0)


async def test_reload_that_fails_changes_nothing(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    farm = make_farm(tmp_path, collector=listen("127.0.0.1:0"))
    async with started(farm, snapshots.append) as collector:
        old = collector.addresses
        with taken_port() as taken, taken_port() as other:
            free = other.getsockname()[1]
            other.close()
            bad = listen(f"127.0.0.1:{free}", f"127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(ListenError, match="in use") as failure:
                await apply(
                    [collector],
                    CheckedConfiguration(make_farm(tmp_path, members=["frodo"], collector=bad), (OTHER_KEY,)),
                )
            assert failure  # the exception keeps the failed call's objects alive; the port must be free all the same
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
                again.bind(("127.0.0.1", free))
        assert (collector.addresses, collector.farm) == (old, farm)
        send(old[0], datagram("gandalf", at=time.time()))
        await until(lambda: snapshots)


async def test_reload_publishes_changes(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    mine = 'score = "mine"\n' + listen("127.0.0.1:0")
    own = "[score.mine]\ncpu_idle = { weight = 7, limit = 100 }\n"
    async with started(make_farm(tmp_path), snapshots.append) as collector:
        send(collector.addresses[0], datagram(at=time.time()))
        await until(lambda: snapshots)
        await apply([collector], CheckedConfiguration(make_farm(tmp_path, collector=mine, more=own), (KEY,)))
        await until(lambda: len(snapshots) == 2)
        assert [s.readings["gandalf.hobbit"].score for s in snapshots] == [100, 7]


async def test_after_stop_nothing_is_delivered(tmp_path: Path) -> None:
    snapshots: list[Snapshot] = []
    async with started(make_farm(tmp_path), snapshots.append) as collector:
        send(collector.addresses[0], datagram(at=time.time()))
        await collector.stop()
        await asyncio.sleep(0)
        assert (collector.counts["accepted"], snapshots) == (1, [])


async def test_the_first_dropped_datagram_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with started(make_farm(tmp_path)) as collector:
        send(collector.addresses[0], b"x", b"x", datagram("sauron"))
        await until(lambda: collector.counts["unknown_host"])
    told = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert [line.split(": ")[1].partition(";")[0] for line in told] == ["malformed", "unknown_host"]


async def test_a_socket_that_is_not_read_is_a_fault(tmp_path: Path) -> None:
    farm = make_farm(tmp_path)
    assert Collector(farm, (KEY,)).fault == "not started"
    async with started(farm) as collector:
        assert not collector.fault
        collector.pause()
        send(collector.addresses[0], datagram("frodo", at=time.time()))
        await until(lambda: collector.fault == f"not reading {collector.addresses[0]} (reports)")
        collector.resume()
        await until(lambda: not collector.fault)
        assert collector.counts["accepted"] == 1
