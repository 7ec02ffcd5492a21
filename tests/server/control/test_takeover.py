"""Tests of take-overs between server processes, and of failed take-overs that leave the old server running."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dns.edns
import msgpack
import pytest

from lbdns.client.control_client import send_command
from lbdns.server.control.takeover import Predecessor
from lbdns.server.workers.messages import MessageChannel
from lbdns_shared.errors import LbdnsError
from tests.answering.asking import make_query, read, short
from tests.end_to_end.process import alive, descendants
from tests.needs import needs
from tests.server.clients import PATIENCE, ask_tcp, ask_udp
from tests.server.running import Serving, serving, write_config
from tests.server.test_dns_server import free_endpoint, get, listen_on
from tests.server.workers.test_worker_pool import clients, metric

QUERY = make_query("round.robin.hobbit")


async def member(server: Serving, name: str = "round.robin.hobbit") -> str:
    response = read(await ask_udp(server.endpoint(), make_query(name)))
    return short(response.answer)[0][2].split(".")[0]


@asynccontextmanager
async def running(folder: Path, *arguments: str, **config: str) -> AsyncIterator[tuple[Serving, Path]]:
    path = write_config(folder, web="127.0.0.1:0", **config)  # type: ignore[arg-type]
    async with serving(path, *arguments) as server:
        yield server, path


async def replaced(old: Serving) -> None:
    assert await old.stopped() == 0
    assert old.logged("a new process has taken over")
    assert not old.logged("Traceback")


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_everything_worth_keeping_goes_over(tmp_path: Path, workers: str) -> None:
    async with running(tmp_path, "--workers", workers) as (old, path):
        web, reports = old.endpoint("serving "), old.endpoint("receiving reports on ")
        old.report("gandalf", 90.0, 5, "127.0.0.18")
        await old.waits_for("gandalf is usable")
        for ask in (ask_udp, ask_tcp, ask_udp):
            assert read(await ask(old.endpoint(), QUERY)).answer
        counted = {
            name: await metric(old, name)
            for name in (
                "lbdns_dns_requests_total",
                "lbdns_answers_total",
                "lbdns_reports_total",
                "lbdns_fail_opens_total",
            )
        }
        async with serving(path, "--workers", workers, "--take-over") as new:
            await replaced(old)
            assert (new.endpoint(), new.endpoint("serving "), new.endpoint("receiving reports on ")) == (
                old.endpoint(), web, reports,
            )  # fmt: skip
            assert await member(new, "best.hobbit") == "gandalf", "known from before"
            assert b" 200 " in await get(web, "/healthz")
            for name, count in counted.items():
                assert await metric(new, name) >= count, name
            assert await metric(new, "lbdns_dns_requests_total") == counted["lbdns_dns_requests_total"] + 1
            new.report("gandalf", 90.0, 5, "127.0.0.18")
            await until_metric(new, "lbdns_reports_total", "replay", 1)
            new.report("gandalf", 90.0, 6, "127.0.0.18")
            await until_metric(new, "lbdns_reports_total", "accepted", 2)
            assert (await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload"))["ok"]
            assert not new.logged("Traceback")


async def until_metric(server: Serving, name: str, labels: str, value: float) -> None:
    async with asyncio.timeout(PATIENCE):
        while await metric(server, name, labels) != value:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@needs(root=True)
async def test_cookies_stay_valid_and_privileges_are_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, server='user = "nobody"') as (old, path):
        cookie = await full_cookie(old, dns.edns.CookieOption(b"12345678", b""))
        async with serving(path, "--workers", "2", "--take-over") as new:
            await replaced(old)
            assert await full_cookie(new, cookie) == cookie, "good ones are echoed"
            # The folder is root's, so the new process could not have made a socket there
            with pytest.raises(LbdnsError, match="known: reload, take-over"):
                await asyncio.to_thread(send_command, tmp_path / "control.sock", "sing")
            for pid in {new.process.pid} | descendants(new.process.pid):
                assert "Uid:\t65534\t" in Path(f"/proc/{pid}/status").read_text()  # noqa: ASYNC240


async def full_cookie(server: Serving, cookie: dns.edns.CookieOption) -> dns.edns.CookieOption:
    """Return the full cookie that the server sends in response to a client cookie."""
    query = make_query("bilbo.hobbit", payload=1232, options=[cookie])
    (option,) = read(await ask_udp(server.endpoint(), query)).options
    assert isinstance(option, dns.edns.CookieOption)
    return option


async def test_places_that_are_no_longer_wanted_are_closed_and_new_ones_opened(tmp_path: Path) -> None:
    one, two, three = [await free_endpoint(tmp_path) for _ in range(3)]
    listen_on(tmp_path, one, two, web="127.0.0.1:0")
    path = tmp_path / "lbdns.toml"
    async with serving(path, "--workers", "2") as old:
        listen_on(tmp_path, two, three, web="off")
        path.write_text(
            path.read_text().replace('[collector]\nlisten = ["127.0.0.1:0"]', f'[collector]\nlisten = ["{one}"]')
        )
        # Where DNS was answered reports are received now: the old socket has to go first
        async with serving(path, "--take-over", ready=False) as new:
            assert await new.stopped() == 1
            assert "in use" in new.log[-1]
        assert await member(old)
        listen_on(tmp_path, two, three, web="off")
        async with serving(path, "--take-over") as new:
            await replaced(old)
            assert {str(e) for e in (two, three)} == {line.split()[-1] for line in new.logged("answering DNS on")} - {
                str(one)
            }
            for endpoint in (two, three):
                assert read(await ask_udp(endpoint, QUERY)).answer
                assert read(await ask_tcp(endpoint, QUERY)).answer
            for ask in (ask_udp, ask_tcp):
                with pytest.raises(ConnectionRefusedError):
                    await ask(one, QUERY)


# What fails


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"server": "colour = 1"}, "colour"),
        ({"zone": "@ nonsense"}, "hobbit.zone:1"),
        ({"web": "192.0.2.1:80"}, "web: 192.0.2.1:80: not an address"),
    ],
)
async def test_a_new_process_that_fails_leaves_the_old_one_serving(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    async with running(tmp_path, "--workers", "2") as (old, path):
        write_config(tmp_path, **change)  # type: ignore[arg-type]
        async with serving(path, "--take-over", ready=False) as new:
            assert await new.stopped() in (1, 2)
            assert new.logged(said)
            assert not new.logged("Traceback")
        await goes_on(old)


async def goes_on(old: Serving) -> None:
    """Check that the server answers queries, receives reports, executes commands and serves pages."""
    with clients(old) as asking:
        asking.send()
        assert await asking.receive()
    accepted = await metric(old, "lbdns_reports_total", "accepted")
    old.report("bilbo", 90.0, 1, "127.0.0.16")
    await until_metric(old, "lbdns_reports_total", "accepted", accepted + 1)
    assert read(await ask_tcp(old.endpoint(), QUERY)).answer
    path = old.folder / "control.sock"
    write_config(path.parent, web="127.0.0.1:0", server="workers = 2" if len(descendants(old.process.pid)) else "")
    assert (await asyncio.to_thread(send_command, path, "reload"))["ok"]
    assert not old.logged("Traceback")


async def test_a_new_process_that_is_killed_leaves_the_old_one_serving(tmp_path: Path) -> None:
    async with running(tmp_path, "--workers", "2") as (old, path):
        stalled = "tests.server.control.stalled_take_over"
        async with serving(path, "--workers", "2", "--take-over", ready=False, module=stalled) as new:
            await new.waits_for("the take-over stalls")
            new.tell(signal.SIGKILL)
            await new.process.wait()
        await old.waits_for("the other process has ended; this server keeps running")
        await goes_on(old)


async def test_one_that_ends_when_reports_wait_already(tmp_path: Path) -> None:
    async with running(tmp_path) as (old, _):
        new = await Predecessor.meet(tmp_path / "control.sock")
        state = await new.reports()
        assert state["counts"]["accepted"] == 0
        old.report("frodo", 90.0, 1, "127.0.0.17")
        assert await metric(old, "lbdns_reports_total", "accepted") == 0, "it waits for the new process"
        for given in new.inherited:
            given.sock.close()
        new.close()
        await old.waits_for("this server keeps running")
        await until_metric(old, "lbdns_reports_total", "accepted", 1)
        await goes_on(old)


async def test_only_one_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path):
        first = await Predecessor.meet(tmp_path / "control.sock")
        with pytest.raises(LbdnsError, match="in progress"):
            await Predecessor.meet(tmp_path / "control.sock")
        for given in first.inherited:
            given.sock.close()
        first.close()


@needs(root=True)
async def test_only_for_root_and_the_servers_own_user() -> None:
    # Not in tmp_path, whose parent folder other users cannot enter
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # noqa: ASYNC240
        async with running(folder) as (server, _):
            (folder / "control.sock").chmod(0o666)
            code = (
                "import socket, sys\n"
                f"sock = socket.socket(socket.AF_UNIX); sock.connect({str(folder / 'control.sock')!r})\n"
                'sock.send(b\'{"command": "take-over"}\\n\'); print(sock.recv(1000).decode())'
            )
            process = await asyncio.create_subprocess_exec(
                "setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", code,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
            assert "only root and the server's own user" in json.loads(out)["error"]
            assert not server.logged("requests a take-over")
            await goes_on(server)


async def test_a_take_over_without_a_server(tmp_path: Path) -> None:
    async with serving(write_config(tmp_path), "--take-over", ready=False) as new:
        assert await new.stopped() == 1
        assert "No such file or directory. Is a server using this control socket?" in new.log[-1]
        assert not alive(descendants(new.process.pid))


class Pretender:
    """A process that violates the take-over protocol."""

    def __init__(self, path: Path, *answers: bytes) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.setblocking(False)
        self._sock.bind(str(path))
        self._sock.listen()
        self._answers = answers
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        with self._sock:
            client, _ = await loop.sock_accept(self._sock)
            with client:
                await loop.sock_recv(client, 100)
                await loop.sock_sendall(client, self._answers[0])
                if len(self._answers) > 1:
                    channel = MessageChannel(client, lambda *_: None, lambda: None)
                    channel.send(self._answers[1])
                    await channel.flush(PATIENCE)
                    await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((b"HTTP/1.1 400 Bad Request\n",), "is not lbdns, or is an incompatible version"),
        ((b"[]\n",), "is not lbdns, or is an incompatible version"),
        ((b'{"ok": false, "error": "no"}\n',), "no"),
        ((b'{"ok": true}\n',), "has ended"),
        ((b'{"ok": true}\n', b"\xc1"), "sent an invalid message"),
        ((b'{"ok": true}\n', msgpack.packb({"version": 99})), "another protocol version"),
        (
            (b'{"ok": true}\n', msgpack.packb({"version": 2, "sockets": [["dns", "::", 53]]})),
            "is not lbdns, or is an incompatible version",
        ),
        ((b'{"ok": true}\n', msgpack.packb([1])), "is not lbdns, or is an incompatible version"),
    ],
)
async def test_a_take_over_from_an_incompatible_program(tmp_path: Path, answers: tuple[bytes, ...], said: str) -> None:
    pretender = Pretender(tmp_path / "c", *answers)
    with pytest.raises(LbdnsError, match=said):
        await Predecessor.meet(tmp_path / "c")
    await pretender.task
