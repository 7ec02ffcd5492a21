"""Tests of worker pools in server processes: workers share the queries, are replaced if they die, and stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from lbdns.client.control_client import send_command
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from tests.answering.asking import make_query, read, short
from tests.end_to_end.process import alive, descendants
from tests.needs import needs
from tests.server.clients import PATIENCE, ask_tcp, udp_socket, until
from tests.server.running import Serving, serving, write_config
from tests.server.test_dns_server import get

PORTS: Final = 24  # clients: that all of them fall to one of two workers is one chance in eight million
SECOND: Final = 1.0  # s within which the queries of a worker that died are answered


@asynccontextmanager
async def several_workers(folder: Path, workers: int = 2, **config: str) -> AsyncIterator[Serving]:
    path = write_config(folder, web="127.0.0.1:0", **config)  # type: ignore[arg-type]
    async with serving(path, "--workers", str(workers)) as server:
        yield server
        assert not server.logged("Traceback")


def fork_servers_of(server: Serving) -> list[int]:
    return named(server, "lbdns-forker")


def workers_of(server: Serving) -> list[int]:
    return named(server, "lbdns-worker-")


def named(server: Serving, prefix: str) -> list[int]:
    """Return the living descendants of the server whose names begin with ``prefix``, the oldest first."""
    return sorted(pid for pid in alive(descendants(server.process.pid)) if name_of(pid).startswith(prefix))


def thread_states(pid: int) -> set[str]:
    """Return the states of a process's threads: T stopped, Z ended; the set is empty once the process is gone."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            found.add(stat.read_text().rpartition(") ")[2][0])
    return found


async def stop(pid: int) -> None:
    """Stop a process, and wait until its last thread has stopped: the others go on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: thread_states(pid) <= {"T"})


async def end(pid: int, number: signal.Signals) -> None:
    """End a process with a signal, and wait until its last thread has ended: the others go on for a moment."""
    os.kill(pid, number)
    await until(lambda: thread_states(pid) <= {"Z", "X"})


class Clients:
    """Clients on many ports, which the kernel distributes among the workers."""

    def __init__(self, endpoint: Endpoint, name: str = "round.robin.hobbit") -> None:
        self.sockets = [udp_socket(endpoint) for _ in range(PORTS)]
        self.waiting: set[int] = set()
        self.answers: list[str] = []
        self._query = make_query(name)
        self._sent = 0

    def send(self) -> None:
        self._sent += 1  # another id each time: a query that comes again is answered as before
        for place, sock in enumerate(self.sockets):
            sock.send(self._sent.to_bytes(2, "big") + self._query[2:])
            self.waiting.add(place)

    async def receive(self, patience: float = PATIENCE) -> bool:
        """Receive until every query is answered; return False if answers are missing after ``patience`` seconds."""
        end = time.monotonic() + patience
        while self.waiting and time.monotonic() < end:
            self._receive_once()
            await asyncio.sleep(0.002)
        self._receive_once()
        return not self.waiting

    def _receive_once(self) -> bool:
        """Receive all responses that are there, and return True."""
        for place in list(self.waiting):
            try:
                response = self.sockets[place].recv(512)
            except BlockingIOError:
                continue
            self.waiting.discard(place)
            self.answers.append(short(read(response).answer)[0][2].split(".")[0])
        return True

    async def receive_first(self) -> None:
        """Receive until some queries are answered, and no further answer comes for 0.3 seconds."""
        await until(lambda: self._receive_once() and len(self.waiting) < PORTS)
        left = -1
        while left != len(self.waiting):
            left = len(self.waiting)
            await self.receive(0.3)


@contextmanager
def clients(server: Serving, name: str = "round.robin.hobbit") -> Iterator[Clients]:
    found = Clients(server.endpoint(), name)
    try:
        yield found
    finally:
        for sock in found.sockets:
            sock.close()


async def metric(server: Serving, name: str, labels: str = "") -> float:
    """Return the sum of the samples with this name whose labels match ``labels`` (a regular expression)."""
    text = (await get(server.endpoint("serving "), "/metrics")).decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*{labels}[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE)
    assert found, name
    return sum(map(float, found))


async def metric_becomes(server: Serving, value: float, name: str, labels: str = "") -> None:
    """Wait until the sum of samples has this value. The counters of a worker that replies late come later."""
    end = time.monotonic() + PATIENCE
    while (found := await metric(server, name, labels)) != value:
        assert time.monotonic() < end, (name, labels, found, value)
        await asyncio.sleep(0.05)


async def test_all_answer_and_are_counted_together(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        one, two = workers_of(server)
        with clients(server) as asking:
            for stopped in (one, two):
                await stop(stopped)
                asking.send()
                await asking.receive_first()
                assert 0 < len(asking.waiting) < PORTS, "one alone doesn't get all queries"
                os.kill(stopped, signal.SIGCONT)
                assert await asking.receive(), "what waited for the other is answered when it goes on"
        for _ in range(6):
            assert short(read(await ask_tcp(server.endpoint(), make_query("best.hobbit"))).answer)
        await metric_becomes(server, 2 * PORTS, "lbdns_dns_requests_total", "udp")
        await metric_becomes(server, 6, "lbdns_dns_requests_total", "tcp")
        await metric_becomes(server, 2 * PORTS + 6, "lbdns_answers_total")
        await metric_becomes(server, 2 * PORTS + 6, "lbdns_dns_request_duration_seconds_count")
        status = (await get(server.endpoint("serving "), "/api/v1/status")).decode()
        assert f'"queries":{2 * PORTS + 6},"workers":2' in status


async def answers_become(server: Serving, members: set[str]) -> None:
    """Wait until all workers answer with these members. A change is logged before the workers receive it."""
    end = time.monotonic() + PATIENCE
    while True:
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()
        if set(asking.answers) == members:
            return
        assert time.monotonic() < end, asking.answers


async def test_a_report_changes_the_answers_of_all(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        for seq, (name, source) in enumerate([("frodo", "127.0.0.17"), ("gandalf", "127.0.0.18")], 1):
            server.report(name, 90.0, seq, source, interval=60.0)
            await server.waits_for(f"{name} is usable")
            await answers_become(server, {"frodo"} if seq == 1 else {"frodo", "gandalf"})
        server.report("frodo", 90.0, 2, "127.0.0.17", interval=0.1)
        await server.waits_for("frodo is silent")
        assert len(server.logged("frodo is silent")) == 1, "each worker knows it, one process says it"
        await answers_become(server, {"gandalf"})


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
async def test_one_that_dies_is_replaced_and_its_queries_are_answered(tmp_path: Path, number: signal.Signals) -> None:
    async with several_workers(tmp_path) as server:
        server.report("gandalf", 90.0, 1, "127.0.0.18")
        await server.waits_for("gandalf is usable")
        await answers_become(server, {"gandalf"})
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()
            counted = await metric(server, "lbdns_dns_requests_total")
            delays = list[float]()
            while len(delays) < 3 and (not delays or min(delays) >= SECOND):  # a busy machine may delay one of them
                victim, other = workers_of(server)
                await end(victim, number)
                died = time.monotonic()
                asking.send()
                assert await asking.receive()
                delays.append(time.monotonic() - died)
                await server.waits_for(f"(process {victim}) was ended by {number.name}; a new process replaces it")
                await until(lambda: len(workers_of(server)) == 2)
                assert other in workers_of(server)
                assert victim not in workers_of(server)
            assert min(delays) < SECOND, "within a second, those too that came while it was dead"
            assert set(asking.answers) == {"gandalf"}, "the new one knows what the dead one knew"
        assert await metric(server, "lbdns_dns_requests_total") >= counted + PORTS
        assert await metric(server, "lbdns_worker_restarts_total") == len(delays)


async def test_one_that_keeps_dying_is_replaced_more_and_more_slowly(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        began = time.monotonic()
        for count in range(1, 5):
            os.kill(workers_of(server)[-1], signal.SIGKILL)
            await server.waits_for("was ended by SIGKILL", count)
            await until(lambda: len(workers_of(server)) == 2)
        assert time.monotonic() - began > 0.05 + 0.1 + 0.2
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()


async def test_a_reload_is_over_when_all_answer_from_the_new_configuration(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        for ttl in (5, 6):
            config = write_config(tmp_path, web="127.0.0.1:0", pool=f"ttl = {ttl}")
            answer = await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
            assert answer == {"ok": True, "message": f"{config}: in force: 1 zone, 1 pool"}
            with clients(server) as asking:
                asking.send()
                for sock in asking.sockets:
                    response = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), PATIENCE)
                    assert read(response).answer[0].ttl == ttl
        await metric_becomes(server, 2 * PORTS, "lbdns_dns_requests_total")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"server": "colour = 1"}, "colour: unknown key"),
        ({"server": "workers = 3"}, "workers: a change requires a restart"),
        ({"server": 'user = "root"'}, "user: a change requires a restart"),
        ({"zone": "@ nonsense"}, "hobbit.zone:1"),
    ],
)
async def test_a_refused_reload_returns_the_reason_and_changes_nothing(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    config = write_config(tmp_path, server="workers = 2")
    async with serving(config) as server:
        write_config(tmp_path, **{"server": "workers = 2", **change})  # type: ignore[arg-type]
        with pytest.raises(LbdnsError, match=said):
            await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
        await server.waits_for("the old configuration stays")
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()


async def test_addresses_come_and_go_with_a_reload(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        first = server.endpoint()
        text = (tmp_path / "lbdns.toml").read_text()
        listen = f'listen = ["{first}", "127.0.0.2:{first.port}"]'
        (tmp_path / "lbdns.toml").write_text(text.replace('listen = ["127.0.0.1:0"]', listen, 1))
        await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
        with clients(server) as asking:  # the last that was logged
            asking.send()
            assert await asking.receive()
        (tmp_path / "lbdns.toml").write_text(
            text.replace('listen = ["127.0.0.1:0"]', f'listen = ["127.0.0.2:{first.port}"]', 1)
        )
        await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
        with udp_socket(first) as sock:
            sock.send(make_query("best.hobbit"))
            with pytest.raises(ConnectionRefusedError):
                await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), PATIENCE)
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()


# The end


async def all_end(pids: set[int]) -> None:
    await until(lambda: not alive(pids))


async def test_a_terminal_interrupts_all_and_the_main_process_ends_them(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        pids = {server.process.pid} | descendants(server.process.pid)
        assert len(pids) == 5
        for pid in pids:  # as a terminal's Ctrl-C, or a service manager's stop, does
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert await server.stopped() == 0
        assert not alive(pids), "nobody is left behind"
        assert server.logged("stopped")


async def test_without_the_main_process_all_end(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        pids = descendants(server.process.pid)
        server.tell(signal.SIGKILL)
        await all_end(pids)
        await server.process.wait()


async def test_the_server_ends_if_a_worker_cannot_be_replaced(tmp_path: Path) -> None:
    async with several_workers(tmp_path) as server:
        worker = workers_of(server)[0]
        for pid in fork_servers_of(server):
            os.kill(pid, signal.SIGKILL)
        await server.waits_for("can't be replaced until the server is restarted")
        with clients(server) as asking:
            asking.send()
            assert await asking.receive(), "but until then it goes on"
        os.kill(worker, signal.SIGKILL)
        assert await server.stopped() == 1
        assert "a worker has ended" in server.log[-1]


# Privileges


@needs(root=True)
async def test_no_process_keeps_a_privilege(tmp_path: Path) -> None:
    async with several_workers(tmp_path, server='user = "nobody"') as server:
        pids = {server.process.pid} | descendants(server.process.pid)
        assert len(pids) == 5
        for pid in pids:
            text = Path(f"/proc/{pid}/status").read_text()  # noqa: ASYNC240
            status = {line.split(":")[0]: line.split()[1:] for line in text.splitlines()}
            assert status["Uid"] == status["Gid"] == ["65534"] * 4
            assert status["Groups"] == ["65534"]
            for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(status[kind][0], 16) == 0, kind
            assert status["NoNewPrivs"] == ["1"]
        with clients(server) as asking:
            asking.send()
            assert await asking.receive()
        os.kill(workers_of(server)[0], signal.SIGKILL)
        await server.waits_for("a new process replaces it")
        await until(lambda: len(workers_of(server)) == 2)
        (fresh,) = {*workers_of(server)} - pids
        assert "Uid:\t65534\t65534\t65534\t65534" in Path(f"/proc/{fresh}/status").read_text()  # noqa: ASYNC240
        names = {"lbdns-forker", "lbdns-worker-0", "lbdns-worker-1"}
        await until(lambda: {name_of(pid) for pid in descendants(server.process.pid)} == names)


def name_of(pid: int) -> str:
    """Return the name of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
