"""Tests of the orders that all servers share: records, keys, and the merge."""

from __future__ import annotations

import json
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.overrides import Override
from lbdns.model.shared_orders import (
    LOST,
    UNSENT,
    Place,
    SharedOrder,
    SharedOrders,
    bucket_key,
    read_order,
    read_order_document,
)

_PLACES = st.tuples(st.sampled_from(["drain", "force", "weight"]), st.text(min_size=1), st.text())
_PLACE = ("drain", "a.z", "")
_DRAIN = Override("drain", "a.z", by="root")


def _order(version: int = 1, revision: int = 0, server: str = "ns1", override: Override | None = _DRAIN) -> SharedOrder:
    return SharedOrder(_PLACE, version, server, "root", override, revision)


@given(_PLACES, _PLACES)
def test_keys_are_valid_and_unique(one: Place, other: Place) -> None:
    assert re.fullmatch(r"[-_=a-zA-Z0-9]+(\.[-_=a-zA-Z0-9]+){2}", bucket_key(one))
    assert (bucket_key(one) == bucket_key(other)) == (one == other)


@given(_PLACES, st.integers(1, 2**53), st.text(min_size=1), st.text())
def test_a_record_is_read_as_it_was_written(place: Place, version: int, server: str, by: str) -> None:
    kind = {"drain": "drain", "force": "up", "weight": "weight"}[place[0]]
    override = Override(kind, place[1], place[2])  # type: ignore[arg-type]
    for each in (override, None):
        order = SharedOrder(place, version, server, by, each)
        assert read_order(json.loads(json.dumps(order.body())), bucket_key(place)) == order


@pytest.mark.parametrize(
    "change",
    [{"place": 5}, {"place": ["drain", "a.z"]}, {"place": ["dance", "a.z", ""]}, {"place": ["drain", "", ""]},
     {"place": ["drain", "b.z", ""]}, {"place": ["drain", ["a.z"], ""]}, {"version": 0}, {"version": True},
     {"version": 2**53 + 1}, {"version": "1"}, {"server": ""}, {"by": None}, {"override": 5}, {"override": {}},
     {"place": ["drain", "\ud800", ""], "override": None}],
)  # fmt: skip
def test_an_invalid_record(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a valid"):
        read_order({**_order().body(), **change}, bucket_key(_PLACE))


@pytest.mark.parametrize("revision", [UNSENT, LOST, 7])
def test_a_document_also_has_the_revision(revision: int) -> None:
    order = _order(3, revision)
    assert read_order_document(json.loads(json.dumps(order.document()))) == order


@pytest.mark.parametrize(
    "change",
    [{"revision": -2}, {"revision": "7"}, {"revision": True}, {"place": 5}, {"place": ["drain", "a.z"]},
     {"place": ["drain", 5, ""]}, {"place": ["drain", "\ud800", ""]}, {"version": 0}],
)  # fmt: skip
def test_an_invalid_document(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a valid"):
        read_order_document({**_order().document(), **change})


@pytest.mark.parametrize("document", [5, None, [], {}])
def test_something_else_is_not_a_document(document: object) -> None:
    with pytest.raises(ValueError, match="not a valid"):
        read_order_document(document)


def test_an_order_that_the_bucket_no_longer_holds_is_pending() -> None:
    state, _ = SharedOrders().receive(_order(3, 8))
    assert state.missing(_PLACE).pending == [_order(3, LOST)]
    unsent = SharedOrders().give(_PLACE, _DRAIN, "root", "ns1")
    assert unsent.missing(_PLACE) == unsent


def test_a_record_under_another_key() -> None:
    with pytest.raises(ValueError, match="stored under"):
        read_order(_order().body(), bucket_key(("drain", "b.z", "")))


def test_all_servers_agree_in_whatever_order_records_arrive() -> None:
    records = [_order(1, 5), _order(2, 6, "ns2", None), _order(2, 7, "ns3"), _order(1, 9)]
    results = set()
    for each in permutations(records):
        state = SharedOrders()
        for record in each:
            state, _ = state.receive(record)
        results.add(state.orders[_PLACE])
    assert results == {_order(2, 7, "ns3")}


def test_an_older_record_that_is_stored_again_does_not_count() -> None:
    state, _ = SharedOrders().receive(_order(2, 6, override=None))
    assert state.receive(_order(1, 7)) == (state, None)
    assert not state.in_force(0).items


def test_a_pending_order_loses_to_one_of_the_same_version_and_the_server_learns_it() -> None:
    state = SharedOrders().give(_PLACE, _DRAIN, "root", "ns1")
    state, lost = state.receive(_order(1, 3, "ns2", None))
    assert lost == _order(1, UNSENT)
    assert not state.pending


def test_a_pending_order_wins_over_an_older_one() -> None:
    state, _ = SharedOrders().receive(_order(1, 3, "ns2"))
    state = state.give(_PLACE, None, "root", "ns1")
    assert state.receive(_order(1, 3, "ns2")) == (state, None)
    assert state.pending == [_order(2, UNSENT, override=None)]


def test_the_own_order_from_the_bucket_is_not_lost() -> None:
    state, lost = SharedOrders().give(_PLACE, _DRAIN, "root", "ns1").receive(_order(1, 3))
    assert lost is None
    assert not state.pending


def test_an_order_given_while_another_is_sent_follows_it() -> None:
    sent = SharedOrders().give(_PLACE, _DRAIN, "root", "ns1")
    assert sent.stored(_order(1, UNSENT), 4).orders[_PLACE] == _order(1, 4)
    later = sent.give(_PLACE, None, "root", "ns1").stored(_order(1, UNSENT), 4)
    assert later.pending == [_order(2, UNSENT, override=None)]


def test_orders_given_while_cut_off_lose_to_a_newer_revision() -> None:
    state, _ = SharedOrders().receive(_order(1, 3))
    for override in (None, _DRAIN, None):
        state = state.give(_PLACE, override, "root", "ns1")
    state, lost = state.reread([_order(2, 4, "ns2")])
    assert lost == [_order(2, UNSENT, override=None)]
    assert state.orders[_PLACE] == _order(2, 4, "ns2")


def test_a_bucket_that_lost_its_store_receives_the_orders_again() -> None:
    state, _ = SharedOrders().receive(_order(3, 8))
    assert state.reread([_order(3, 8)]) == (state, [])
    state, lost = state.reread([])
    assert (state.pending, lost) == ([_order(3, LOST)], [])
    assert state.give(_PLACE, None, "root", "ns1").pending == [_order(4, UNSENT, override=None)]


def test_a_new_store_with_lower_revisions_counts() -> None:
    state, _ = SharedOrders().receive(_order(3, 8))
    state, lost = state.reread([_order(3, 2, "ns2")])
    assert (state.orders[_PLACE], lost) == (_order(3, 2, "ns2"), [_order(3, LOST)])


def test_an_old_store_that_returns_receives_the_newer_orders() -> None:
    state, _ = SharedOrders().receive(_order(3, 8))
    state, _ = state.reread([_order(2, 7, "ns2")])
    assert state.pending == [_order(3, LOST)]


def test_an_expired_override_is_not_in_force() -> None:
    state = SharedOrders().give(_PLACE, Override("drain", "a.z", until=10), "root", "ns1")
    assert state.in_force(9).items
    assert not state.in_force(10).items
