"""Tests of the native plane on real sockets: it returns the same bytes, counters and selections as the Python plane."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import dns.edns
import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import INTERFACE, PYTHON_PLANE, NativePlane, Plane, choose_plane
from lbdns.answering.responder import Responder
from lbdns.config import AnswerForm, PoolConfig, RateLimitConfig
from lbdns.config.value_readers import parse_network
from lbdns.counting.response_times import ResponseTimes
from lbdns.model.farm import Farm
from lbdns.policies.plan import Plan
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.dns_sockets import open_udp
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from tests.answering.asking import make_query, read, short
from tests.answering.farms import hobbit, pool
from tests.needs import needs
from tests.planes import answer_batch
from tests.planning.site_farm import site_farm
from tests.server.clients import with_ids

SECRETS = (b"the first secret", b"the other secret")
NOW, WALL = 1000.0, 1_700_000_000.0


class Asked:
    """A server that answers only when the test tells it to, and a client of the server."""

    def __init__(self, farm: Farm, plane: Plane, secrets: Sequence[bytes], host: str = "127.0.0.1") -> None:
        self.responder = Responder(AnswerTable(farm, plane), secrets)
        self.responder.tick(NOW, WALL)
        self.sock = open_udp(Endpoint(host, 0))
        self.server = UdpServer(self.sock, self.responder, ResponseTimes())
        self.batch = plane.datagram_batch()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.client = socket.socket(family, socket.SOCK_DGRAM)
        self.client.bind(("::1" if ":" in host else "127.0.0.1", 0))
        self.client.connect(("::1" if ":" in host else "127.0.0.1", self.server.endpoint.port))
        self.client.setblocking(False)

    def ask(self, *queries: bytes) -> list[bytes]:
        """Send the queries, and return all responses in the order of arrival."""
        for query in queries:
            self.client.send(query)
        read = 0
        while read < len(queries):
            if self.batch:
                read += answer_batch(self.batch, self.sock, self.responder)
            else:
                read += self.server._answer_waiting()
        responses = []
        while True:
            try:
                responses.append(self.client.recv(4096))
            except BlockingIOError:
                return responses

    def close(self) -> None:
        self.client.close()
        self.sock.close()


@contextmanager
def both(farm: Farm, secrets: Sequence[bytes] = SECRETS, host: str = "127.0.0.1") -> Iterator[tuple[Asked, Asked]]:
    """Yield two servers for the same farm, one on the Python plane and one on the native plane."""
    with ExitStack() as stack:
        pair = Asked(farm, PYTHON_PLANE, secrets, host), Asked(farm, NativePlane(), secrets, host)
        for asked in pair:
            stack.callback(asked.close)
        yield pair


def limited(farm: Farm, responses: int, slip: int, exempt: tuple[str, ...] = ()) -> Farm:
    rules = RateLimitConfig(responses_per_second=responses, slip=slip, exempt=tuple(map(parse_network, exempt)))
    return replace(farm, config=replace(farm.config, rate_limit=rules))


SUBNET = dns.edns.ECSOption("192.0.2.0", 24)
COOKIE = dns.edns.GenericOption("COOKIE", b"a client")
WAYS: list[dict[str, Any]] = [
    {},
    {"recurse": True},
    {"payload": 1232},
    {"payload": 512, "dnssec_ok": True, "recurse": True},
    {"payload": 1232, "options": [COOKIE]},
    {"payload": 4096, "dnssec_ok": True, "options": [COOKIE]},
    {"payload": 1232, "options": [SUBNET]},
    {"payload": 4096, "dnssec_ok": True, "options": [dns.edns.ECSOption("2001:db8::1", 128)]},
    {"payload": 1232, "options": [dns.edns.GenericOption("ECS", bytes(4))]},
    {"payload": 1232, "options": [dns.edns.GenericOption("ECS", b"\1\3\0\0")]},
    {"payload": 1232, "options": [SUBNET, COOKIE]},
    {"payload": 1232, "options": [dns.edns.GenericOption("ECS", b"\0\1\x18\x18\xc0\0\2")]},
    {"payload": 1231},
    {"payload": 1232, "options": [dns.edns.GenericOption("NSID", b"")]},
    {"payload": 1232, "version": 1},
]
NAMES = ["best.hobbit", "BeSt.hobbit", "round.robin.hobbit", "www.hobbit", "bilbo.hobbit", "robin.hobbit",
         "nowhere.hobbit", "a.wild.hobbit", "big.hobbit", "huge.hobbit", "example.org", "hobbit"]  # fmt: skip
TYPES = ["A", "AAAA", "TXT", "ANY", "HTTPS", "TYPE65280"]
QUERIES = [make_query(name, rtype, **way) for name, rtype, way in product(NAMES, TYPES, WAYS)]


def in_parts(queries: Sequence[bytes], size: int = 32) -> Iterator[Sequence[bytes]]:
    for at in range(0, len(queries), size):
        yield queries[at : at + size]


@needs(native=True)
@pytest.mark.parametrize(("answer", "answers"), [("cname", 1), ("address", 1), ("address", 2), ("address", 3)])
def test_both_say_the_same_bytes_the_first_time_and_later(answer: AnswerForm, answers: int) -> None:
    farm = hobbit(pool(answer=answer, answers=answers))
    with both(farm) as (python, fast):
        for turn in range(3):
            for number, query in enumerate(QUERIES):
                # One by one: what is left aside is answered behind the rest of its batch
                asked = (1000 * turn + number).to_bytes(2, "big") + query[2:]
                assert fast.ask(asked) == python.ask(asked)
        assert fast.responder.table.queries() == python.responder.table.queries()
        for key, handout in python.responder.table.cursors.items():
            assert fast.responder.table.cursors[key].totals() == handout.totals()
            assert fast.responder.table.cursors[key].last == handout.last


@needs(native=True)
def test_both_say_the_same_about_queries_with_mistakes() -> None:
    chance = random.Random(20261121)
    with both(hobbit()) as (python, fast):
        for part in in_parts([make_query(name, **way) for name, way in product(NAMES, WAYS)]):
            fast.ask(*part)
            python.ask(*part)
        for _ in range(150):
            queries = []
            for number in range(32):
                query = bytearray(chance.choice(QUERIES))
                for _ in range(chance.randrange(1, 4)):
                    query[chance.randrange(2, len(query))] = chance.randrange(256)
                queries.append(number.to_bytes(2, "big") + bytes(query[2 : chance.choice((None, None, -1, 20, 40))]))
            by_id = {answer[:2]: answer for answer in fast.ask(*queries)}
            for answer in python.ask(*queries):
                # Rotations differ: what one takes the long way may come behind what the other answers at once
                assert rotated(by_id[answer[:2]]) == rotated(answer)


def rotated(answer: bytes) -> tuple[int, bytes, int]:
    """Return the parts of an answer that do not depend on which member is due."""
    return len(answer) > 12, answer[:12], answer[3] & 0xF


@needs(native=True)
@pytest.mark.parametrize("config", [pool(), pool(answer="address", answers=3)], ids=["one", "several"])
def test_the_second_query_of_a_kind_is_answered_by_the_native_part(
    config: PoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with both(hobbit(config)) as (_, fast):
        usual = [make_query(name, **way) for name in NAMES[:6] for way in WAYS[:9]]
        fast.ask(*usual)
        called: list[bytes] = []
        monkeypatch.setattr(Responder, "respond_slowly", lambda self, message, *_: called.append(message))
        assert len(fast.ask(*(b"zz" + query[2:] for query in usual))) == len(usual)
        assert called == []


@needs(native=True)
def test_known_queries_for_a_pool_with_sites_take_the_fast_path_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = [make_query("rr.hobbit", **way) for way in WAYS[:9]]
    with both(site_farm(tmp_path)) as (python, fast):
        for query in 2 * usual:
            assert fast.ask(query) == python.ask(query)
        called: list[bytes] = []
        monkeypatch.setattr(Responder, "respond_slowly", lambda self, message, *_: called.append(message))
        assert len(fast.ask(*(b"zz" + query[2:] for query in usual))) == len(usual)
        assert called == []


@needs(native=True)
def test_a_query_that_arrives_again_gets_the_member_it_got_before_also_if_it_went_the_long_way() -> None:
    query = make_query("round.robin.hobbit")
    with both(hobbit()) as pair:
        for asked in pair:
            first = asked.ask(query)  # the long way
            assert asked.ask(query, query, query) == first * 3  # the short one
            second = asked.ask(b"ot" + query[2:])
            assert second[0][12:] != first[0][12:]
            assert asked.responder.counters()["repeated"] == 3
            asked.responder.tick(NOW + 6.5, WALL + 6.5)
            third = asked.ask(query)
            assert third[0][12:] not in (first[0][12:], second[0][12:])


@needs(native=True)
def test_a_list_is_repeated_after_another_plan_too() -> None:
    query = make_query("best.hobbit")
    with both(hobbit(pool(answer="address", answers=2))) as pair:
        for asked in pair:
            cursor = asked.responder.table.cursors["web", "best"]
            asked.ask(b"zz" + query[2:])
            (first,) = asked.ask(query)
            cursor.set_plan(Plan((0, 2), ranking=(0, 2, 1)), (0, 1, 2))
            assert asked.ask(query) == [first]
            assert asked.ask(b"ot" + query[2:])[0][12:] != first[12:]
            cursor.set_plan(Plan((0, 1)))
            (shorter,) = asked.ask(query)
            assert [rdata for _, _, rdata in short(read(shorter).answer)] == ["127.0.0.17"]
        assert pair[0].responder.counters() == pair[1].responder.counters()


@needs(native=True)
def test_a_member_that_left_the_plan_is_not_repeated() -> None:
    query = make_query("best.hobbit")
    with both(hobbit()) as pair:
        for asked in pair:
            handout = asked.responder.table.cursors["web", "best"]
            handout.set_plan(Plan((0,)))
            asked.ask(b"zz" + query[2:])
            assert b"bilbo" in asked.ask(query)[0]
            handout.set_plan(Plan((1, 2)))
            assert b"frodo" in asked.ask(query)[0]


def subnet_options(chance: random.Random) -> bytes:
    """Return options that are often a well-formed client subnet, or one with a mistake."""
    length = chance.choice([0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 20])
    source = max(0, 8 * length - chance.randrange(8) + chance.choice([0, 0, 0, 0, 8]))
    address = bytearray(chance.randbytes(length))
    if address and source % 8 and chance.random() < 0.8:
        address[-1] &= 0xFF00 >> source % 8
    data = bytes((0, chance.choice([0, 1, 1, 2, 2, 3]), source % 256, chance.choice([0, 0, 0, 0, 24]))) + address
    size = len(data) + chance.choice([0, 0, 0, 0, 0, 1, -1])
    return b"\0\x08" + size.to_bytes(2, "big") + data


@needs(native=True)
@pytest.mark.parametrize("seed", range(4))
def test_client_subnets_get_the_same_bytes_on_both_planes(seed: int) -> None:
    chance = random.Random(seed)
    plain = make_query("best.hobbit", payload=1232)[:-2]
    whole = formerr = 0
    with both(hobbit()) as (python, fast):
        for asked in (python, fast):
            asked.ask(plain + b"\0\0")  # precompiles the response without the option
        for number in range(500):
            options = subnet_options(chance)
            size = len(options) + chance.choice([0, 0, 0, 0, 0, 0, 1, -1])
            query = number.to_bytes(2, "big") + plain[2:] + size.to_bytes(2, "big") + options
            answers = fast.ask(query)
            assert answers == python.ask(query)
            if answers[0][3] & 0xF:
                formerr += 1
            else:
                whole += 1
                assert answers[0].endswith(options), "the option is repeated with scope 0"
    assert min(whole, formerr) > 50


@needs(native=True)
@pytest.mark.parametrize("slip", [0, 1, 2, 3])
@pytest.mark.parametrize("way", [WAYS[0], WAYS[2], WAYS[4], WAYS[6]])
def test_limits_are_kept_alike_and_move_no_rotation(slip: int, way: dict[str, Any]) -> None:
    query = make_query("round.robin.hobbit", **way)
    with both(limited(hobbit(), 5, slip)) as (python, fast):
        answers = [asked.ask(*with_ids(query, range(20))) for asked in (python, fast)]
        assert answers[0] == answers[1]
        whole = [answer for answer in answers[1] if not answer[2] & 0x02]
        assert len(whole) == 5
        assert len(answers[1]) - 5 == (15 // slip if slip else 0)
        assert fast.responder.counters() == python.responder.counters()
        assert sum(fast.responder.table.cursors["web", "round_robin"].totals()) == 5
        for asked in (python, fast):
            asked.responder.tick(NOW + 1.0, WALL)
            assert len(asked.ask(*with_ids(query, range(100, 105)))) == 5


@needs(native=True)
def test_all_kinds_together_have_a_limit_too() -> None:
    names = ["best", "round.robin", "weighted", "www", "bilbo", "frodo", "gandalf", "mail", "ns"]
    queries = [make_query(f"{name}.hobbit", rtype) for name in names for rtype in ("A", "AAAA")]
    with both(hobbit()) as pair:
        for asked in pair:
            asked.ask(*queries)  # compiled from now on
            asked.responder.use(AnswerTable(limited(hobbit(), 2, 0), asked.responder.table.plane), SECRETS)
            assert len(asked.ask(*queries)) == 10
            asked.responder.tick(NOW + 1.0, WALL)
            assert len(asked.ask(*queries[:5])) == 5


@needs(native=True)
def test_exempt_networks_and_valid_cookies_are_not_limited() -> None:
    query = make_query("best.hobbit")
    with both(limited(hobbit(), 1, 0, ("127.0.0.0/8",))) as pair:
        for asked in pair:
            assert len(asked.ask(*with_ids(query, range(9)))) == 9
    with both(limited(hobbit(), 1, 0)) as pair:
        for asked in pair:
            options = read(asked.ask(make_query("best.hobbit", payload=1232, options=[COOKIE]))[0]).options
            cookie = dns.edns.GenericOption("COOKIE", options[0].to_wire() or b"")
            again = make_query("best.hobbit", payload=1232, options=[cookie])
            assert len(asked.ask(*with_ids(again, range(9)))) == 9
            forged = dns.edns.GenericOption("COOKIE", (options[0].to_wire() or b"")[:-1] + b"?")
            again = make_query("best.hobbit", payload=1232, options=[forged])
            assert asked.ask(*with_ids(again, range(100, 109))) == []


@needs(native=True)
@pytest.mark.parametrize("age", [0, 1, 1799, 1800, 1801, 3600, 3601, -300, -301])
@pytest.mark.parametrize("secret", [0, 1])
def test_cookies_are_made_and_checked_alike(age: int, secret: int) -> None:
    host = "127.0.0.1"
    made, _ = PYTHON_PLANE.cookie_jar(SECRETS[secret : secret + 1]).answer(b"a client", host, WALL)
    answers = [plane.cookie_jar(SECRETS).answer(made, host, WALL + age) for plane in (PYTHON_PLANE, NativePlane())]
    assert answers[0] == answers[1]
    assert answers[0][1] == (-300 <= age <= 3600)
    for address in ("::1", "2001:db8::5", "fe80::1%2"):
        both_made = [
            plane.cookie_jar(SECRETS).answer(b"a client", address, WALL) for plane in (PYTHON_PLANE, NativePlane())
        ]
        assert both_made[0] == both_made[1]


@needs(native=True)
def test_after_a_plan_or_a_reload_it_goes_on_where_it_was() -> None:
    query = make_query("round.robin.hobbit")
    with both(hobbit()) as (python, fast):
        for asked in (python, fast):
            asked.ask(*with_ids(query, range(4)))
            table = asked.responder.table
            handout = table.cursors["web", "round_robin"]
            handout.set_plan(Plan((2, 1), repeat_from=1))
            asked.ask(*with_ids(query, range(10, 15)))
            assert handout.totals() == [2, 5, 2]
            assert handout.last == 1
            assert handout.due == 1
            new = AnswerTable(hobbit(), table.plane)
            new.take_over(table)
            asked.responder.use(new, SECRETS)
            asked.ask(*with_ids(query, range(20, 21)))
            assert sum(new.cursors["web", "round_robin"].totals()) == 10
        assert fast.responder.table.queries() == python.responder.table.queries()


@needs(native=True)
def test_forgetting_entries_loses_no_count() -> None:
    query = make_query("best.hobbit")
    with both(hobbit()) as pair:
        for asked in pair:
            asked.ask(*with_ids(query, range(7)))
            asked.responder.table.forget_entries()
            asked.ask(*with_ids(query, range(10, 15)))
            assert sum(asked.responder.table.queries().values()) == 12


@needs(native=True, ipv6=True)
def test_ipv6_too() -> None:
    with both(hobbit(), host="::") as (python, fast):
        queries = [make_query(name, **way) for name, way in product(NAMES[:4], WAYS[:9])]
        # One by one, because the native plane answers a batch in another order; and each query again at once, because
        # another query may take its slot of the retransmission cache, at random and on one plane only
        for query in queries:
            for _ in range(2):
                assert fast.ask(query) == python.ask(query)


def test_what_is_not_installed_can_not_be_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.answering.plane.AVAILABLE", False)
    assert choose_plane("auto").name == "python"
    with pytest.raises(LbdnsError, match="make native"):
        choose_plane("native")


def test_one_of_another_version_can_not_be_required() -> None:
    """The extension is built and upgraded separately, so an old one may be left over."""
    stale = f"lbdns_native = types.ModuleType('lbdns_native'); lbdns_native.INTERFACE = {INTERFACE - 1}"
    program = (
        f"import sys, types; {stale}; sys.modules['lbdns_native'] = lbdns_native; "
        "from lbdns.answering.plane import choose_plane; print(choose_plane('auto').name); choose_plane('native')"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert result.stdout == "python\n"
    assert "the native extension was built for another version of lbdns; build it with 'make native'" in result.stderr


@needs(native=True)
def test_it_is_used_if_it_is_there() -> None:
    assert choose_plane("auto").name == choose_plane("native").name == "native"
    assert choose_plane("python").name == "python"


CASES = sorted((Path(__file__).parents[1] / "fixtures" / "fuzz" / "query").iterdir())


@needs(native=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_say_the_same_about_what_fuzzing_kept(case: Path) -> None:
    query = case.read_bytes()[1:]  # the first byte says who asks, and how
    with both(hobbit()) as (python, fast):
        for _ in range(2):
            assert fast.ask(query) == python.ask(query)


@needs(native=True)
def test_times_of_several_threads_need_not_ascend() -> None:
    table = AnswerTable(hobbit(), NativePlane())
    cursor, affinity = table.cursors["web", "round_robin"], NativePlane().member_selector().affinity
    given = [affinity.give(cursor, "127.0.0.1", 2000 + n, 0, NOW - n / 1000) for n in range(20)]
    assert given == [n % 3 for n in range(20)], "20 queries for A are 20 lookups"
    assert affinity.coherent == 0
