"""Checks that the kernel's answers are those of the sockets, byte for byte, and that other packets pass unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.responder import Responder
from lbdns.server.xdp.kernel_answers import KernelAnswers, TableSizes
from lbdns.server.xdp.kernel_errors import TablesFullError
from tests.answering.asking import client, make_query
from tests.answering.test_responder_fast_path import NAMES, TYPES, WAYS, fixed
from tests.needs import needs
from tests.server.xdp.kernel_of_responder import PASS, TX, UNLIMITED, VLAN, kernel, publish, run
from tests.server.xdp.packets import (
    CLIENT_MAC,
    CLIENTS,
    ETHERNET,
    SERVER_MAC,
    SERVERS,
    Datagram,
    answer_frame,
    payload_of,
)  # fmt: skip

pytestmark = needs(xdp=True, root=True)

MEMBER: Final = 1  # the only one that is selected
QUERY: Final = make_query("best.hobbit", recurse=True, payload=1232)
#: The ways for which the fast path has precompiled answers without a cookie
PRECOMPILED: Final[list[dict[str, Any]]] = [
    {"recurse": recurse, **way}
    for recurse in (False, True)
    for way in ({}, {"payload": 1232}, {"payload": 1232, "dnssec_ok": True})
]


@pytest.fixture(scope="module")
def responder() -> Responder:
    """Return a responder that has precompiled all of its answers."""
    warm = fixed(MEMBER)
    for name, rtype, way in product(NAMES, TYPES, PRECOMPILED):
        for _ in range(2):
            warm.respond(make_query(name, rtype, **way), client())
    return warm


@pytest.fixture(scope="module")
def answers(responder: Responder) -> Iterator[KernelAnswers]:
    with kernel() as loaded:
        publish(loaded, responder, (MEMBER,))
        yield loaded


def expected(responder: Responder, query: bytes) -> bytes | None:
    """Return the response of the slow path."""
    response = responder.respond_slowly(query, client())
    return response if isinstance(response, bytes) else None


def check(answers: KernelAnswers, responder: Responder, query: Datagram) -> bool:
    """Check that the kernel sends the sockets' answer or passes the packet unchanged; return whether it answers."""
    verdict, frame = run(answers, query)
    if verdict == TX:
        response = expected(responder, query.payload)
        assert response is not None
        assert frame == answer_frame(query, response)
    else:
        assert (verdict, frame) == (PASS, query.frame())
    return verdict == TX


@pytest.mark.parametrize("name", NAMES)
def test_mixed_queries_are_answered_like_by_the_sockets(
    answers: KernelAnswers, responder: Responder, name: str
) -> None:
    for rtype, way, version, vlan in product(TYPES, WAYS, (4, 6), (0, VLAN)):
        query = make_query(name, rtype, **way)
        entry = responder.table.entries.get(query[12 : query.index(0, 12) + 5].lower())
        is_usual = entry is not None and not way.get("options") and not way.get("version")
        kind = 0 if "payload" not in way else 4 if way.get("dnssec_ok") else 2
        is_answered = check(answers, responder, Datagram(query, version, vlan=vlan))
        assert is_answered == (is_usual and bool(entry and entry.variants[kind + bool(way.get("recurse"))]))


@given(
    letters=st.binary(min_size=64, max_size=64),
    name=st.sampled_from(NAMES),
    rtype=st.sampled_from(TYPES),
    ident=st.integers(0, 0xFFFF),
    flags=st.sampled_from((0, 0x0100, 0x0020, 0x0010, 0x0130)) | st.integers(0, 0xFFFF),
    opt=st.none() | st.tuples(st.integers(0, 0xFFFF), st.sampled_from((0, 0x8000)) | st.integers(0, 0xFFFFFFFF)),
    change=st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255)),
    end=st.sampled_from((None, None, None, -1, -5)) | st.integers(0, 60),
    added=st.sampled_from((b"", b"", b"\0", b"\0\0\0\0")) | st.binary(max_size=30),
    version=st.sampled_from((4, 6)),
    vlan=st.sampled_from((0, VLAN)),
    has_checksum=st.booleans(),
)  # fmt: skip
def test_any_message_gets_the_sockets_answer_or_passes(
    answers: KernelAnswers, responder: Responder, letters: bytes, name: str, rtype: str, ident: int, flags: int,
    opt: tuple[int, int] | None, change: tuple[int, int] | None, end: int | None, added: bytes, version: int, vlan: int,
    has_checksum: bool,
) -> None:  # fmt: skip
    query = bytearray(make_query(name, rtype, ident=ident))
    question_end = len(query)
    for at in range(12, question_end - 4):  # 0x20: some letters in upper case
        if 97 <= query[at] <= 122 and letters[at % 64] % 2:
            query[at] -= 32
    query[2:4] = flags.to_bytes(2, "big")
    if opt:
        query[11] = 1
        query += b"\0\0\x29" + opt[0].to_bytes(2, "big") + opt[1].to_bytes(4, "big") + b"\0\0"
    if change and change[0] < len(query):
        query[change[0]] = change[1]
    message = bytes(query[:end]) + added
    datagram = Datagram(message, version, vlan=vlan, checksum=None if has_checksum or version == 6 else 0)
    verdict, frame = run(answers, datagram)
    if verdict == PASS:
        assert frame == datagram.frame()
    else:
        response = expected(responder, message)
        assert response is not None
        assert (verdict, frame) == (TX, answer_frame(datagram, response))


@given(version=st.sampled_from((4, 6)), at=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_packet_with_a_wrong_bit_passes_unless_nothing_depends_on_the_bit(
    answers: KernelAnswers, version: int, at: int, bit: int
) -> None:
    """Only the client's hardware address and IPv6's traffic class, flow label and hop limit have no checksum.

    The first bit of a hardware address makes it that of a group.
    """
    frame = bytearray(Datagram(QUERY, version).frame())
    at %= len(frame)
    frame[at] ^= 1 << bit
    verdict, left, _ = answers.program.run(bytes(frame))
    free = set(range(6, 12))
    if version == 6:
        free |= {15, 16, 17, 21} if at != 14 or bit < 4 else set()
        free |= {14} if bit < 4 else set()
    if at in free and (at, bit) != (6, 0):
        assert verdict == TX
    else:
        assert (verdict, left) == (PASS, bytes(frame))


@given(frame=st.binary(min_size=ETHERNET, max_size=300))
def test_garbage_passes(answers: KernelAnswers, frame: bytes) -> None:
    verdict, left, _ = answers.program.run(frame)
    assert (verdict, left) == (PASS, frame)


@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_that_is_cut_off_anywhere_passes(answers: KernelAnswers, version: int) -> None:
    whole = Datagram(QUERY, version, padded=False).frame()
    for length in range(ETHERNET, len(whole)):
        assert answers.program.run(whole[:length])[:2] == (PASS, whole[:length])


def test_padding_is_cut_off(answers: KernelAnswers, responder: Responder) -> None:
    query = Datagram(QUERY)
    verdict, frame, _ = answers.program.run(query.frame() + bytes(30))
    assert (verdict, frame) == (TX, answer_frame(query, expected(responder, QUERY) or b""))


BASE: Final = Datagram(QUERY)
BASE_6: Final = Datagram(QUERY, 6)
STRANGERS: Final = {
    "another port": replace(BASE, destination_port=5353),
    "another address": replace(BASE, destination="192.0.2.2"),
    "another IPv6 address": replace(BASE_6, destination="2001:db8::2"),
    "another hardware address": replace(BASE, destination_mac=CLIENT_MAC),
    "a group's hardware address": replace(BASE, destination_mac=bytes([SERVER_MAC[0] | 1]) + SERVER_MAC[1:]),
    "another VLAN": replace(BASE, vlan=VLAN + 1),
    "a fragment that is not the last": replace(BASE, fragment=0x2000),
    "a fragment that is not the first": replace(BASE, fragment=0x0010),
    "a wrong checksum": replace(BASE, checksum=0x1234),
    "a wrong checksum over IPv6": replace(BASE_6, checksum=0x1234),
    "no checksum over IPv6": replace(BASE_6, checksum=0),
    "from the loopback": replace(BASE, source="127.0.0.1"),
    "from a group": replace(BASE, source="224.0.0.1"),
    "from broadcast": replace(BASE, source="255.255.255.255"),
    "from nowhere": replace(BASE, source="0.0.0.0"),
    "from the server": replace(BASE, source=SERVERS[4]),
    "from an IPv6 group": replace(BASE_6, source="ff02::1"),
    "from the IPv6 loopback": replace(BASE_6, source="::1"),
    "from no IPv6 address": replace(BASE_6, source="::"),
    "from the server's IPv6 address": replace(BASE_6, source=SERVERS[6]),
    "from port 0": replace(BASE, source_port=0),
    "from port 0 over IPv6": replace(BASE_6, source_port=0),
    "from a group's hardware address": replace(BASE, source_mac=bytes.fromhex("01005e000001")),
    "from the broadcast hardware address": replace(BASE_6, source_mac=b"\xff" * 6),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGERS)
def test_a_packet_that_is_not_a_simple_query_to_the_server_passes(answers: KernelAnswers, what: str) -> None:
    query = STRANGERS[what]
    assert run(answers, query) == (PASS, query.frame())


def test_other_protocols_and_headers_pass(answers: KernelAnswers) -> None:
    frame, frame_6 = BASE.frame(), BASE_6.frame()
    changed = {
        "TCP": frame[:23] + b"\6" + frame[24:],
        "IP options": frame[:14] + b"\x46" + frame[15:],
        "an IPv6 extension header": frame_6[:20] + b"\0" + frame_6[21:],
        "ARP": frame[:12] + b"\x08\x06" + frame[14:],
        "two VLAN tags": frame[:12] + b"\x81\0\0\x07" * 2 + frame[12:],
        "a priority tag": frame[:12] + b"\x81\0\0\0" + frame[12:],
    }
    for what, packet in changed.items():
        assert answers.program.run(packet)[:2] == (PASS, packet), what


def test_a_query_without_a_checksum_is_answered_over_ipv4(answers: KernelAnswers, responder: Responder) -> None:
    assert check(answers, responder, replace(BASE, checksum=0))


def test_the_priority_in_a_vlan_tag_does_not_matter(answers: KernelAnswers) -> None:
    frame = Datagram(QUERY, vlan=VLAN | 0xA000).frame()
    verdict, left, _ = answers.program.run(frame)
    assert verdict == TX
    assert left[12:18] == frame[12:18]


def test_counts_say_what_was_answered(responder: Responder) -> None:
    with kernel() as answers:
        plans = publish(answers, responder, (0, 1, 2))
        key = QUERY[12 : QUERY.index(0, 12) + 5]
        for _ in range(7):
            assert run(answers, BASE)[0] == TX
        assert run(answers, replace(BASE, checksum=1))[0] == PASS
        assert run(answers, replace(BASE, payload=b"nonsense"))[0] == PASS
        assert run(answers, STRANGERS["another address"])[0] == PASS
        assert answers.question_counts()[key] == 7
        assert sum(plans[key].counts()) == 7
        totals = answers.totals()
        assert (totals["answered"], totals["passed"], totals["wrong_checksum"]) == (7, 2, 1)


def test_nothing_is_answered_without_a_lease(responder: Responder) -> None:
    with kernel() as answers:
        publish(answers, responder, (MEMBER,))
        answers.renew(-1.0)
        assert run(answers, BASE) == (PASS, BASE.frame())
        answers.renew(60.0)
        assert run(answers, BASE)[0] == TX


def test_what_is_withdrawn_passes(responder: Responder) -> None:
    with kernel() as answers:
        plans = publish(answers, responder, (MEMBER,))
        key = QUERY[12 : QUERY.index(0, 12) + 5]
        plans[key].withdraw()
        assert run(answers, BASE)[0] == PASS
        assert answers.totals()["no_plan"] == 1
        plans[key].publish((MEMBER,), 0)
        assert run(answers, BASE)[0] == TX
        answers.withdraw_question(key)
        answers.withdraw_question(key)
        assert run(answers, BASE)[0] == PASS
        assert key not in answers.question_counts()
        answers.publish_question(key, 3, responder.table.entries[key].variants[3] or (), plans[key])
        assert run(answers, BASE)[0] == TX
        answers.withdraw_address(SERVERS[4], 53, 1)
        answers.withdraw_address(SERVERS[4], 53, 1)
        assert run(answers, BASE)[0] == PASS


def test_tables_that_have_been_cleared_are_filled_anew(responder: Responder) -> None:
    """As at a reload: there is room for as much as before, and counts begin with 0."""
    query = Datagram(QUERY)
    sizes = TableSizes(questions=400, variants=2000, plans=8, order_words=256, counters=1000)
    with kernel(sizes=sizes) as answers:
        for _ in range(5):
            (plan, *_) = publish(answers, responder, (MEMBER,)).values()
            assert set(answers.question_counts().values()) == {0}
            assert plan.counts() == [0] * len(plan.counts())
            assert check(answers, responder, query)
            assert sum(answers.question_counts().values()) == 1
            answers.renew(0.0)
            assert run(answers, query) == (PASS, query.frame())
            answers.clear()
            answers.renew(60.0)
            assert run(answers, query) == (PASS, query.frame())
            assert answers.question_counts() == {}
        assert answers.totals()["answered"] == sum(answers.answered_by_cpu()) == 5


def test_what_the_program_cannot_send_is_refused() -> None:
    key, head = QUERY[12:-11], bytes(10)
    with kernel() as answers:
        plan = answers.add_plan(2)
        for bad_key, kind, variants in (
            (b"\1" * 93 + b"\0\0\1\0\1", 0, [(head, b"")]),
            (key.upper(), 0, [(head, b"")]),
            (b"\3a\0b\0\0\1\0\1", 0, [(head, b"")]),
            (key, 6, [(head, b"")]),
            (key, 0, [(head, bytes(497))]),
            (key, 0, [(head, bytes(7))]),
            (key, 0, [(b"", bytes(8))]),
            (key, 0, [(head, b"")] * 2),
        ):
            with pytest.raises(ValueError, match=r"must|needs|longer|contains"):
                answers.publish_question(bad_key, kind, variants, None)
        with pytest.raises(ValueError, match="per member"):
            answers.publish_question(key, 0, [(head, b"")], plan)
        assert answers.question_counts() == {}


def test_full_tables_say_so() -> None:
    key, response = QUERY[12:-11], (bytes(10), bytes(8))
    sizes = TableSizes(questions=1, variants=9, plans=1, order_words=64, counters=10)
    with kernel(UNLIMITED, sizes) as answers:
        with pytest.raises(TablesFullError, match="counters"):
            answers.add_plan(3)
        answers.add_plan(0)
        with pytest.raises(TablesFullError, match="plans"):
            answers.add_plan(0)
        answers.publish_question(key, 0, [response], None)
        with pytest.raises(TablesFullError, match="questions"):
            answers.publish_question(b"\1x" + key, 0, [response], None)
        answers.publish_question(key, 1, [response], None)
        with pytest.raises(TablesFullError, match="variants"):
            answers.publish_question(key, 2, [response], None)


def test_the_answer_is_what_its_packet_carries(answers: KernelAnswers, responder: Responder) -> None:
    """The builder of packets and its reader agree."""
    query = Datagram(QUERY, 6, vlan=VLAN, source=CLIENTS[6])
    _, frame = run(answers, query)
    assert payload_of(frame, query) == expected(responder, QUERY)
