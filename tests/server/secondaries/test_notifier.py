"""Tests of NOTIFY with sockets that act as secondaries and respond correctly, late, wrongly or never."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.tsig
import pytest

from lbdns.config import KeyConfig, NotifyTarget
from lbdns.model.farm import Farm
from lbdns.server.secondaries.notifier import TRIES, Notifier, answer_to, make_notify, source_for
from lbdns.server.secondaries.zone_serials import advance_serials
from lbdns_shared.endpoint import Endpoint
from tests.answering.farms import make_farm, pool
from tests.answering.secondaries import KEY, dns_key
from tests.server.clients import PATIENCE, until
from tests.server.secondaries.test_zone_serials import zone_text

WRONG = KeyConfig("secondary", "hmac-sha256", b"another secret...")
QUICK = 0.02  # s for the first try


class Secondary:
    """A socket that receives NOTIFY messages."""

    def __init__(self, sock: socket.socket, key: KeyConfig | None) -> None:
        self.sock, self.key = sock, key

    def target(self) -> NotifyTarget:
        host, port = self.sock.getsockname()[:2]
        return NotifyTarget(Endpoint(host, port), self.key.name if self.key else "")

    async def hears(self) -> tuple[dns.message.Message, tuple[str, int]]:
        """Return the next NOTIFY and its source, after verifying its signature."""
        loop = asyncio.get_running_loop()
        wire, sender = await asyncio.wait_for(loop.sock_recvfrom(self.sock, 4096), PATIENCE)
        query = dns.message.from_wire(wire, keyring=dns_key(self.key) if self.key else None)
        assert query.had_tsig == (self.key is not None)
        return query, sender

    async def answers(
        self, query: dns.message.Message, to: tuple[str, int], rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    ) -> None:
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA
        response.set_rcode(rcode)
        await asyncio.get_running_loop().sock_sendto(self.sock, response.to_wire(), to)

    def is_silent(self) -> bool:
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False


@contextmanager
def secondary(key: KeyConfig | None = None, host: str = "127.0.0.1") -> Iterator[Secondary]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.bind((host, 0))
        yield Secondary(sock, key)


@asynccontextmanager
async def notifying(first_wait: float = 5.0) -> AsyncIterator[Notifier]:
    notifier = Notifier(first_wait)
    try:
        yield notifier
    finally:
        await asyncio.wait_for(notifier.stop(), PATIENCE)


def farm(targets: Sequence[NotifyTarget], serial: int = 7, more: str = "") -> Farm:
    built = make_farm({"hobbit": zone_text(serial, more), "orc": zone_text(1)}, [pool()])
    zones = tuple(replace(zone, notify=tuple(targets) if zone.name == "hobbit" else ()) for zone in built.config.zones)
    return replace(built, config=replace(built.config, zones=zones, keys=(KEY,)))


async def test_all_secondaries_are_notified_at_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with secondary() as one, secondary(KEY) as two:
        async with notifying() as notifier:
            notifier.reload(farm([one.target(), two.target()]))
            ids = set()
            for who in (one, two):
                query, sender = await who.hears()
                assert query.opcode() == dns.opcode.NOTIFY
                assert query.flags & ~0x7800 == dns.flags.AA
                assert query.question[0].to_text() == "hobbit. IN SOA"
                (soa,) = query.answer
                assert soa.ttl == 300
                assert isinstance(soa[0], dns.rdtypes.ANY.SOA.SOA)
                assert soa[0].serial == 7
                ids.add((query.id, sender))
                await who.answers(query, sender)
            assert len(ids) == 2
            await until(lambda: len(caplog.records) == 2)
            assert {record.getMessage() for record in caplog.records} == {
                f"NOTIFY hobbit serial 7 to {who.target()}: answered" for who in (one, two)
            }


async def test_secondaries_are_notified_again_only_if_the_serial_changes() -> None:
    with secondary() as one:
        async with notifying() as notifier:
            first, serials = advance_serials(farm([one.target()]), {})
            notifier.reload(first)
            await one.answers(*await one.hears())
            notifier.reload(first)
            second, _ = advance_serials(farm([one.target()], more="a A 127.0.0.9\n"), serials)
            notifier.reload(second)
            query, sender = await one.hears()
            assert soa_serial(query) == 8
            await one.answers(query, sender)
            notifier.reload(second)
            await asyncio.sleep(0)
            assert one.is_silent()


def soa_serial(query: dns.message.Message) -> int:
    rdata = query.answer[0][0]
    assert isinstance(rdata, dns.rdtypes.ANY.SOA.SOA)
    return int(rdata.serial)


async def test_new_secondaries_are_notified_and_removed_ones_are_not() -> None:
    with secondary() as one, secondary() as two:
        async with notifying(QUICK) as notifier:
            notifier.reload(farm([one.target()]))
            await one.hears()
            notifier.reload(farm([two.target()]))
            await two.answers(*await two.hears())
            while not one.is_silent():  # what was sent before
                await one.hears()
            await asyncio.sleep(4 * QUICK)
            assert one.is_silent()
            notifier.reload(farm([one.target(), two.target()]))
            await one.answers(*await one.hears())


async def test_it_is_tried_again_with_another_id_and_port(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with secondary(KEY) as one:
        async with notifying(QUICK) as notifier:
            notifier.reload(farm([one.target()]))
            heard = [await one.hears() for _ in range(3)]
            assert len({sender for _, sender in heard}) == 3
            assert len({query.id for query, _ in heard}) > 1
            # An answer that comes after the next try has begun does not count
            query, sender = heard[-1]
            await one.answers(query, sender)
            while "answered" not in caplog.text:
                assert "no answer" not in caplog.text
                if not one.is_silent():
                    await one.answers(*await one.hears())
                await asyncio.sleep(0)


async def test_it_is_given_up_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with secondary() as one:
        async with notifying(QUICK) as notifier:
            notifier.reload(farm([one.target()]))
            for _ in range(TRIES):
                await one.hears()
            await until(lambda: caplog.records)
            assert [record.getMessage() for record in caplog.records] == [
                f"NOTIFY hobbit serial 7 to {one.target()}: no answer after 5 tries; "
                "the secondary will detect the change at its next refresh"
            ]
            assert one.is_silent()


async def test_a_closed_port_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with secondary() as one:
        target = one.target()
    async with notifying(QUICK) as notifier:
        notifier.reload(farm([target]))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            await asyncio.sleep(2 * QUICK)
            sock.setblocking(False)
            sock.bind((target.endpoint.host, target.endpoint.port))
            late = Secondary(sock, None)
            await late.answers(*await late.hears())
            caplog.set_level(logging.INFO)
            await until(lambda: "answered" in caplog.text or not notifier._running)


async def test_an_error_is_an_answer_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with secondary() as one:
        async with notifying() as notifier:
            notifier.reload(farm([one.target()]))
            await one.answers(*await one.hears(), rcode=dns.rcode.NOTAUTH)
            await until(lambda: caplog.records)
            message = caplog.records[0].getMessage()
            assert message.endswith(
                "the secondary answered NOTAUTH; check whether this server is configured there as a primary"
            )


async def test_over_ipv6_and_from_the_address_it_listens_at() -> None:
    with secondary(host="::1") as one:
        built = farm([one.target()])
        server = replace(built.config.server, listen=(Endpoint("127.0.0.1", 53), Endpoint("::1", 53)))
        async with notifying() as notifier:
            notifier.reload(replace(built, config=replace(built.config, server=server)))
            query, sender = await one.hears()
            assert sender[0] == "::1"
            await one.answers(query, sender)


async def test_stopping_does_not_wait() -> None:
    with secondary() as one:
        async with notifying(3600.0) as notifier:
            notifier.reload(farm([one.target()]))
            await one.hears()


@pytest.mark.parametrize(
    ("target", "listen", "source"),
    [
        ("192.0.2.1", ["0.0.0.0", "::"], ""),
        ("192.0.2.1", ["192.0.2.9", "192.0.2.10"], "192.0.2.9"),
        ("192.0.2.1", ["127.0.0.1", "192.0.2.9"], "192.0.2.9"),
        ("192.0.2.1", ["127.0.0.1", "2001:db8::9"], ""),
        ("127.0.0.5", ["192.0.2.9", "127.0.0.1"], "127.0.0.1"),
        ("2001:db8::1", ["192.0.2.9", "2001:db8::9"], "2001:db8::9"),
    ],
)
def test_where_it_is_sent_from(target: str, listen: list[str], source: str) -> None:
    assert source_for(Endpoint(target, 53), [Endpoint(host, 53) for host in listen]) == source


class TestAnswers:
    """Tests of which responses to NOTIFY the notifier accepts."""

    def sent(self, key: KeyConfig | None = None) -> dns.message.Message:
        query = make_notify(next(iter(farm([]).zones.values())), key)
        query.to_wire()
        return query

    def heard(self, query: dns.message.Message, key: KeyConfig | None = None) -> dns.message.Message:
        assert query.wire is not None
        return dns.message.from_wire(query.wire, keyring=dns_key(key) if key else None)

    def test_a_good_one(self) -> None:
        query = self.sent()
        assert answer_to(query, dns.message.make_response(self.heard(query)).to_wire()) == ""

    def test_a_signed_one(self) -> None:
        query = self.sent(KEY)
        assert answer_to(query, dns.message.make_response(self.heard(query, KEY)).to_wire()) == ""

    def test_not_one_that_lacks_the_signature(self) -> None:
        query = self.sent(KEY)
        response = dns.message.make_response(self.heard(query, KEY))
        response.use_tsig(dns_key(WRONG))
        response.request_mac = query.mac or b""
        assert answer_to(query, response.to_wire()) is None
        response = dns.message.make_response(dns.message.from_wire(query.wire or b"", keyring=lambda *_: False))
        response.tsig = None
        assert answer_to(query, response.to_wire()) is None

    @pytest.mark.parametrize("octets", [b"", b"\0", b"\xff" * 12, b"\0" * 600])
    def test_not_what_is_none(self, octets: bytes) -> None:
        assert answer_to(self.sent(), octets) is None
        assert answer_to(self.sent(), (self.sent().wire or b"")[:12] + octets) is None

    def test_not_one_to_another_query(self) -> None:
        query = self.sent()
        response = dns.message.make_response(self.heard(query))
        response.id ^= 1
        assert answer_to(query, response.to_wire()) is None
        response.id ^= 1
        response.set_opcode(dns.opcode.QUERY)
        assert answer_to(query, response.to_wire()) is None
        assert answer_to(query, query.wire or b"") is None, "its own echo"
        other = dns.message.make_response(dns.message.make_query("orc", "SOA", id=query.id))
        other.set_opcode(dns.opcode.NOTIFY)
        assert answer_to(query, other.to_wire()) is None
