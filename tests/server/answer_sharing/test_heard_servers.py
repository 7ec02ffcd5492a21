"""Other servers' messages: who is heard, and which messages are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns.bus.signed_message import MessageKeys
from lbdns.server.answer_sharing.answer_messages import MAX_LENGTH, MAX_SERVERS, PURPOSE, AnswerMessage
from lbdns.server.answer_sharing.heard_servers import HeardServers
from lbdns_shared.keys import new_master_key
from tests.collector.collector_fixtures import KEY

KEYS = MessageKeys((KEY,), PURPOSE)
WALL = 1_800_000_000.0
OWN, OTHER = 11, 22
COUNTS = {
    ("web", "best", "frodo.hobbit"): 3,
    ("web", "best", "bilbo.hobbit"): 2,
    ("web", "weighted", "frodo.hobbit"): 1,
}


def message(seq: int = 1, **more: object) -> AnswerMessage:
    return replace(AnswerMessage("ns2", OTHER, seq, WALL, 0.25, (OWN,), COUNTS), **more)  # type: ignore[arg-type]


def sealed(seq: int = 1, **more: object) -> bytes:
    return KEYS.seal(message(seq, **more).body())


def receiver() -> HeardServers:
    return HeardServers(KEYS, OWN)


def test_the_answers_of_a_server_that_hears_this_one_count() -> None:
    servers = receiver()
    found = servers.take(sealed(), 5.0, WALL)
    assert found is not None
    assert (found.server, found.seconds, found.heard) == (OTHER, 0.25, frozenset({OTHER}))
    assert found.counts == {
        ("web", "best"): {"frodo.hobbit": 3, "bilbo.hobbit": 2},
        ("web", "weighted"): {"frodo.hobbit": 1},
    }
    assert servers.documents(5.1) == [{"name": "ns2", "age_s": 0.1, "answers": 6}]


def test_a_silent_server_no_longer_counts() -> None:
    servers = receiver()
    servers.take(sealed(), 5.0, WALL)
    assert servers.heard(5.9) == {OTHER}
    assert (servers.heard(6.0), servers.sending(6.0), servers.documents(6.0)) == (frozenset(), (), [])


def test_a_message_that_does_not_prove_to_be_new_only_makes_the_server_known() -> None:
    servers = receiver()
    assert servers.take(sealed(heard=(33,)), 5.0, WALL) is None
    assert (servers.sending(5.1), servers.heard(5.1)) == ((OTHER,), frozenset())
    assert servers.counts["unconfirmed"] == 1
    assert servers.take(sealed(2), 5.2, WALL) is not None, "now the other server has heard this one"


def test_messages_to_two_servers_that_start_at_the_same_time_are_confirmed() -> None:
    one, two = HeardServers(KEYS, 1), HeardServers(KEYS, 2)
    seq = 0
    for step in range(3):
        now, seq = step * 0.25, seq + 1
        first = KEYS.seal(message(seq, boot=1, heard=one.sending(now)).body())
        second = KEYS.seal(message(seq, boot=2, heard=two.sending(now)).body())
        two.take(first, now, WALL)
        one.take(second, now, WALL)
    assert (one.heard(0.5), two.heard(0.5)) == (frozenset({2}), frozenset({1}))


def test_a_servers_own_messages_are_ignored() -> None:
    servers = receiver()
    assert servers.take(sealed(boot=OWN), 5.0, WALL) is None
    assert not any(servers.counts.values())


@pytest.mark.parametrize("seq", [1, 2])
def test_a_replay_is_refused(seq: int) -> None:
    servers = receiver()
    servers.take(sealed(2), 5.0, WALL)
    assert servers.take(sealed(seq), 5.1, WALL) is None
    assert servers.counts["replay"] == 1
    assert servers.take(sealed(seq), 5.0 + 60, WALL) is None, "nor when the server has fallen silent"


def test_lost_messages_are_counted() -> None:
    servers = receiver()
    servers.take(sealed(1), 5.0, WALL)
    assert servers.take(sealed(4), 5.2, WALL) is not None
    assert servers.counts["lost"] == 2


BODY = message().body()


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        pytest.param("bad_tag", MessageKeys((new_master_key(),), PURPOSE).seal(BODY), id="another key"),
        pytest.param("bad_tag", MessageKeys((KEY,), "snapshot").seal(BODY), id="another purpose"),
        pytest.param("malformed", b"", id="empty"),
        pytest.param("malformed", b"LBM1" + bytes(MAX_LENGTH), id="too long"),
        pytest.param("malformed", KEYS.seal({}), id="no keys"),
        pytest.param("malformed", KEYS.seal({**BODY, "counts": [["web", "best", "frodo.hobbit", -1]]}), id="negative"),
        pytest.param("malformed", KEYS.seal({**BODY, "counts": [["web", "best", 3]]}), id="a count without a member"),
        pytest.param("malformed", KEYS.seal({**BODY, "counts": [["p" * 256, "best", "m", 1]]}), id="a long name"),
        pytest.param("malformed", KEYS.seal({**BODY, "counts": [["w", "b", "m", 1]] * 1001}), id="too many counts"),
        pytest.param("malformed", KEYS.seal({**BODY, "heard": [1] * 101}), id="too many servers"),
        pytest.param("malformed", KEYS.seal({**BODY, "boot": 1.5}), id="a boot that is no integer"),
        pytest.param("malformed", KEYS.seal({**BODY, "seconds": 5.1}), id="a long period"),
        pytest.param("malformed", KEYS.seal({**BODY, "time": float("nan")}), id="no time"),
        pytest.param("clock", KEYS.seal({**BODY, "time": WALL + 31}), id="a clock that is ahead"),
        pytest.param("clock", KEYS.seal({**BODY, "time": WALL - 31}), id="an old message"),
        pytest.param("implausible", sealed(counts={("web", "best", "m"): 250_001}), id="too many answers"),
    ],
)
def test_messages_that_are_refused(reason: str, data: bytes) -> None:
    servers = receiver()
    assert servers.take(data, 5.0, WALL) is None
    assert {result: count for result, count in servers.counts.items() if count} == {reason: 1}


def test_many_messages_cannot_claim_more_time_than_has_passed() -> None:
    servers = receiver()
    servers.take(sealed(1, seconds=5.0), 5.0, WALL)
    claimed = {("web", "best", "frodo.hobbit"): 600_000}
    assert servers.take(sealed(2, seconds=5.0, counts=claimed), 5.0, WALL) is None
    assert servers.counts["implausible"] == 1


def test_the_number_of_servers_is_limited_until_silent_ones_are_forgotten() -> None:
    servers = receiver()
    for boot in range(100, 100 + MAX_SERVERS):
        servers.take(sealed(boot=boot), 5.0, WALL)
    assert servers.take(sealed(boot=1), 5.1, WALL) is None
    assert len(servers.heard(5.1)) == MAX_SERVERS
    assert servers.take(sealed(boot=1), 125.1, WALL) is not None
