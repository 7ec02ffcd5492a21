"""Tests of complete ``lbdns serve`` servers, most of them in separate processes, with queries from dnspython."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.message
import dns.rcode
import pytest

from lbdns.counting.answer_counters import NO_COUNTS
from lbdns.process.state_format import FILE_NAME
from lbdns.process.state_lock import StateInUseError, exclusive
from lbdns.server.dns_server import DnsServer
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_configuration import ServeOptions, read_configuration
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError, LbdnsError, ListenError
from tests.answering.asking import make_query, read, short
from tests.answering.farms import HOBBIT
from tests.needs import needs
from tests.server.clients import ask_tcp, ask_udp, tcp_client, udp_socket, until
from tests.server.running import serving, write_config

QUERY = make_query("round.robin.hobbit")


async def member(endpoint: Endpoint, name: str = "round.robin.hobbit") -> str:
    """Return the member named in the answer to a query."""
    answer = short(read(await ask_udp(endpoint, make_query(name))).answer)
    return answer[0][2].split(".")[0]


# As a process


async def test_it_serves_until_a_signal_stops_it(tmp_path: Path) -> None:
    async with serving(write_config(tmp_path)) as server:
        where = server.endpoint()
        for transport in (dns.asyncquery.udp, dns.asyncquery.tcp):
            query = dns.message.make_query("bEst.hObbit", "A", use_edns=0, payload=1232)
            response = await transport(query, where.host, port=where.port, timeout=60)
            assert response.rcode() == dns.rcode.NOERROR
            assert [rrset.ttl for rrset in response.answer] == [0, 0]
        server.tell(signal.SIGTERM)
        assert await server.stopped() == 0
        assert server.logged("stopped")
        assert not server.logged("Traceback")
        assert (tmp_path / "state" / FILE_NAME).exists()


async def test_reports_move_the_answer(tmp_path: Path) -> None:
    config = write_config(tmp_path, pool='names = { best = "best_score" }')
    async with serving(config) as server:
        where = server.endpoint()
        for seq, (best, idle) in enumerate([("frodo", 90.0), ("gandalf", 95.0)], 1):
            server.report("bilbo", 20.0, seq, "127.0.0.16")
            for name, source in (("frodo", "127.0.0.17"), ("gandalf", "127.0.0.18")):
                server.report(name, idle if name == best else 10.0, seq, source)
            async with asyncio.timeout(60):
                while await member(where, "best.hobbit") != best:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert [await member(where, "best.hobbit") for _ in range(3)] == [best] * 3


async def test_a_bad_file_at_reload_changes_nothing_and_is_logged(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with serving(config) as server:
        where = server.endpoint()
        assert await member(where) == "bilbo"
        config.write_text(config.read_text() + "\n[sever]\nlisten = []\n")
        server.tell(signal.SIGHUP)
        line = await server.waits_for("the old configuration stays")
        assert "sever" in line
        assert "server" in line, "the nearest known key"
        assert await member(where) == "frodo"
        (tmp_path / "hobbit.zone").write_text("@ nonsense")
        config = write_config(tmp_path, zone="@ nonsense")
        server.tell(signal.SIGHUP)
        assert "hobbit.zone:1" in await server.waits_for("the old configuration stays", 2)
        assert await member(where) == "gandalf"
        assert not server.logged("Traceback")


async def test_a_reload_loses_no_query(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with serving(config) as server, AsyncExitStack() as stack:
        where = server.endpoint()
        loop = asyncio.get_running_loop()
        answered = sent = 0
        done = asyncio.Event()

        async def ask_steadily() -> None:
            nonlocal answered, sent
            with udp_socket(where) as sock:
                while not done.is_set():
                    sent += 1
                    await loop.sock_sendall(sock, (sent & 0xFFFF).to_bytes(2, "big") + QUERY[2:])
                    response = await asyncio.wait_for(loop.sock_recv(sock, 512), 60)
                    assert int.from_bytes(response[:2], "big") == sent & 0xFFFF
                    answered += 1

        asking = asyncio.create_task(ask_steadily())
        connection = await stack.enter_async_context(tcp_client(where))
        for count in range(1, 6):
            write_config(tmp_path, pool=f"ttl = {count}")
            server.tell(signal.SIGHUP)
            await server.waits_for("reload: done", count)
            assert read(await connection.ask(QUERY)).answer[0].ttl == count, "an open connection stays open"
            before = answered
            await until(lambda before=before: answered > before + 20 or asking.done())  # type: ignore[misc]
        done.set()
        await asking
        assert answered == sent > 100
        ttl = read(await ask_udp(where, QUERY)).answer[0].ttl
        assert ttl == 5


async def test_a_taken_port_ends_it_with_an_error_and_no_traceback(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        async with serving(write_config(tmp_path), "--listen", f"127.0.0.1:{port}", ready=False) as server:
            assert await server.stopped() == 1
            assert server.log[-1].startswith(f"DNS over UDP: 127.0.0.1:{port}: the port is in use; ")
            assert not server.logged("Traceback")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"server": "colour = 1"}, "colour"),
        ({"server": 'user = "nosuchuser"'}, "there is no user 'nosuchuser'"),
        ({"zone": "@ A 127.0.0.1\n"}, "hobbit.zone"),
        ({"members": ("bilbo", "smaug")}, "'smaug' has no address"),
    ],
)
async def test_a_bad_configuration_at_start(tmp_path: Path, change: dict[str, str], said: str) -> None:
    async with serving(write_config(tmp_path, **change), ready=False) as server:  # type: ignore[arg-type]
        assert await server.stopped() == 2
        assert server.logged(said)
        assert not server.logged("Traceback")


@needs(root=True)
async def test_root_is_given_up(tmp_path: Path) -> None:
    config = write_config(tmp_path, server='user = "nobody"', web="127.0.0.1:0")
    async with serving(config) as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()  # noqa: ASYNC240
        ids = {line.split(":")[0]: line.split()[1:] for line in status.splitlines()}
        assert ids["Uid"] == ["65534"] * 4
        assert ids["Gid"] == ["65534"] * 4
        assert ids["Groups"] == ["65534"]
        assert await member(server.endpoint()) == "bilbo"
        assert b"lbdns_answers_total" in await get(server.endpoint("serving "), "/metrics")
        server.tell(signal.SIGTERM)
        assert await server.stopped() == 0
        assert not server.logged("Traceback")


async def get(endpoint: Endpoint, path: str) -> bytes:
    """Return the whole response to an HTTP request."""
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: {endpoint}\r\n\r\n".encode())
    async with asyncio.timeout(60):
        response = await reader.read()
    writer.close()
    return response


# In this process, where its objects can be looked at


@asynccontextmanager
async def server_of(config: Path, *listen: Endpoint) -> AsyncIterator[DnsServer]:
    server = DnsServer(config, ServeOptions(listen))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        assert server._dns.sockets.endpoints == []


def in_force(server: DnsServer) -> tuple[object, ...]:
    """Return the server's objects that a reload replaces."""
    answerer = server._dns.answerer
    assert isinstance(answerer, LocalAnswerer)
    return (
        server.farm,
        server._status.members.farm,
        answerer.responder.table,
        answerer.listeners.numbers,
        server._dns.secrets(server._current.value),
    )


def listen_on(folder: Path, *endpoints: Endpoint, **other: str) -> None:
    """Write the configuration of a server that listens for DNS queries on these addresses."""
    path = write_config(folder, **other)  # type: ignore[arg-type]
    wanted = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
    path.write_text(path.read_text().replace('listen = ["127.0.0.1:0"]', f"listen = [{wanted}]", 1))


async def free_endpoint(folder: Path) -> Endpoint:
    """Return an endpoint that was free a moment ago for both UDP and TCP."""
    async with server_of(write_config(folder)) as server:
        return server._dns.sockets.endpoints[0]


def test_load_overrules_addresses_and_workers(tmp_path: Path) -> None:
    config = write_config(tmp_path, server="workers = 3")
    assert read_configuration(config).farm.config.server.workers == 3
    assert read_configuration(config, ServeOptions(workers=2)).farm.config.server.workers == 2
    assert read_configuration(config).farm.config.server.listen == (Endpoint("127.0.0.1", 0),)
    assert read_configuration(config, ServeOptions((Endpoint("::1", 5300),))).farm.config.server.listen == (
        Endpoint("::1", 5300),
    )


async def test_a_reload_opens_new_addresses_and_closes_old_ones(tmp_path: Path) -> None:
    one, two = await free_endpoint(tmp_path), await free_endpoint(tmp_path)
    listen_on(tmp_path, one)
    async with server_of(tmp_path / "lbdns.toml") as server:
        assert await member(one) == "bilbo"
        listen_on(tmp_path, two)
        await server.reload()
        assert await member(two) == "frodo"
        with pytest.raises(ConnectionRefusedError):
            await ask_udp(one, QUERY)
        assert read(await ask_tcp(two, QUERY)).answer


async def test_a_member_more_or_less_keeps_rotation_counters_and_scores(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with server_of(config) as server:
        where = server._dns.sockets.endpoints[0]
        assert [await member(where) for _ in range(5)][-1] == "frodo"
        write_config(tmp_path, members=("bilbo", "frodo", "gandalf", "ns"))
        await server.reload()
        assert [await member(where) for _ in range(4)] == ["gandalf", "ns", "bilbo", "frodo"]
        write_config(tmp_path, members=("frodo", "gandalf", "ns"))
        await server.reload()
        assert [await member(where) for _ in range(3)] == ["gandalf", "ns", "frodo"]
        assert list(server._status.selection.answers("web")) == [4, 3, 2]
        assert sum(server._status.counters.total().asked.values()) == 12
        assert server._status.counters.queries == 12


async def test_readings_survive_a_reload(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with serving(config) as server:
        where = server.endpoint()
        server.report("gandalf", 90.0, 1, "127.0.0.18")
        async with asyncio.timeout(60):
            while {await member(where) for _ in range(3)} != {"gandalf"}:
                pass
        write_config(tmp_path, pool="ttl = 1")
        server.tell(signal.SIGHUP)
        await server.waits_for("reload: done")
        assert {await member(where) for _ in range(3)} == {"gandalf"}


async def test_counts_of_members_that_come_back_do_not_begin_anew(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with server_of(config) as server:
        where = server._dns.sockets.endpoints[0]
        assert [await member(where) for _ in range(3)] == ["bilbo", "frodo", "gandalf"]
        before = server._status.counters.total()
        write_config(tmp_path, members=("bilbo", "ns"), pool='names = { other = "best" }')
        await server.reload()
        assert server._status.counters.total().beyond(before).answers == {}
        assert before.beyond(server._status.counters.total()) == NO_COUNTS
        write_config(tmp_path)
        await server.reload()
        assert list(server._status.selection.answers("web")) == [1, 1, 1]
        assert before.beyond(server._status.counters.total()) == NO_COUNTS


@pytest.mark.parametrize("trouble", ["dns", "web", "reports", "zone", "user", "connect"])
async def test_a_reload_that_fails_leaves_everything_as_it_was(tmp_path: Path, trouble: str) -> None:
    one, two = await free_endpoint(tmp_path), await free_endpoint(tmp_path)
    listen_on(tmp_path, one, web="127.0.0.1:0")
    config = tmp_path / "lbdns.toml"
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        async with server_of(config) as server:
            before = in_force(server)
            listen_on(tmp_path, two, web="127.0.0.1:0")
            text = config.read_text()
            taken = f"127.0.0.1:{udp.getsockname()[1]}"
            config.write_text(
                {
                    "dns": text.replace(f'["{two}"]', f'["{two}", "{taken}"]'),
                    "web": text.replace('"127.0.0.1:0"\n', f'"127.0.0.1:{tcp.getsockname()[1]}"\n'),
                    "reports": text.replace('listen = ["127.0.0.1:0"]', f'listen = ["{taken}"]'),
                    "zone": text.replace("hobbit.zone", "nowhere.zone"),
                    "user": text.replace("[server]", '[server]\nuser = "root"'),
                    "connect": text.replace('listen = ["127.0.0.1:0"]', 'connect = "http://127.0.0.1:1"'),
                }[trouble]
            )
            assert config.read_text() != text
            with pytest.raises(ListenError if trouble in ("dns", "web", "reports") else ConfigError):
                await server.reload()
            assert in_force(server) == before
            assert await member(one) == "bilbo"
            assert read(await ask_tcp(one, QUERY)).answer
            with pytest.raises(ConnectionRefusedError):
                await ask_udp(two, QUERY)
            assert server._web.address is not None
            assert b" 200 " in await get(server._web.address, "/healthz")
            listen_on(tmp_path, two, web="127.0.0.1:0")
            await server.reload()
            assert await member(two) == "gandalf"


async def test_subscribers_see_the_new_farm_at_a_reload(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    async with server_of(config) as server:
        seen: list[int] = []
        server._status.members.subscribe(lambda: seen.append(len(server._status.members.farm.pools[0].members)))
        write_config(tmp_path, members=("bilbo", "frodo"))
        await server.reload()
        assert seen[-1] == 2


async def test_a_server_that_cannot_start_closes_everything(tmp_path: Path) -> None:
    where = await free_endpoint(tmp_path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        config = write_config(tmp_path)
        config.write_text(
            config.read_text().replace(
                '[collector]\nlisten = ["127.0.0.1:0"]', f'[collector]\nlisten = ["127.0.0.1:{sock.getsockname()[1]}"]'
            )
        )
        server = DnsServer(config, ServeOptions((where,)))
        with pytest.raises(ListenError, match="reports"):
            await server.start()
    with pytest.raises(ConnectionRefusedError):
        await ask_udp(where, QUERY)


async def test_no_restore_happens_while_it_reads_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, state = write_config(tmp_path), tmp_path / "state"

    def read_state(folder: Path) -> None:
        with pytest.raises(StateInUseError), exclusive(folder):
            pass
        raise ConfigError("the state is locked")

    with monkeypatch.context() as patched:
        patched.setattr("lbdns.server.server_configuration.check_state_format", read_state)
        with pytest.raises(ConfigError, match="the state is locked"):
            DnsServer(config)
    with exclusive(state), pytest.raises(LbdnsError, match="'lbdns restore' is replacing its files"):
        DnsServer(config)


@needs(ipv6=True)
async def test_ipv6_and_ipv4_udp_and_tcp_all_in_one_rotation(tmp_path: Path) -> None:
    four = Endpoint("127.0.0.1", 0)
    async with server_of(write_config(tmp_path), four, Endpoint("::1", 0)) as server:
        handed = []
        for number in range(12):
            ask = (ask_udp, ask_tcp)[number // 2 % 2]
            rtype = ("A", "TXT", "MX")[number % 3]  # types that do not belong to one lookup
            response = await ask(server._dns.sockets.endpoints[number % 2], make_query("round.robin.hobbit", rtype))
            handed.append(short(read(response).answer)[0][2].split(".")[0])
        assert handed == ["bilbo", "frodo", "gandalf"] * 4


async def test_a_zone_of_thousands_is_reloaded_while_queries_are_answered(tmp_path: Path) -> None:
    config = write_config(tmp_path, zone=HOBBIT)
    async with server_of(config) as server:
        where = server._dns.sockets.endpoints[0]
        write_config(tmp_path, zone=HOBBIT + "".join(f"h{n} A 127.1.{n >> 8}.{n & 255}\n" for n in range(8000)))
        reloading = asyncio.create_task(server.reload())
        answered = 0
        while not reloading.done():
            assert await member(where)
            answered += 1
        await reloading
        assert answered > 3, "the reload blocked the event loop"  # one or two would be answered then
        assert read(await ask_udp(where, make_query("h7999.hobbit"))).answer
