"""Tests of collecting records: which records form an RRset, and which are refused and change nothing."""

from __future__ import annotations

from collections.abc import Callable

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from lbdns.zones import zone_records
from lbdns.zones.zone_records import RRset, UnservableError, ZoneRecords

ORIGIN = dns.name.from_text("hobbit.")
NS, CNAME, SOA, TXT, RRSIG = 2, 5, 6, 16, 46
SIGNATURE = "A 8 2 60 20300101000000 20200101000000 1 hobbit. AAAA"

Add = Callable[..., None]


@pytest.fixture
def records() -> ZoneRecords:
    return ZoneRecords(ORIGIN)


@pytest.fixture
def add(records: ZoneRecords) -> Add:
    def put(owner: str, rtype: str, text: str, ttl: int = 60) -> None:
        rdata = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(rtype), text, ORIGIN, relativize=False)
        records.add(dns.name.from_text(owner, ORIGIN), ttl, rdata)

    return put


def test_alike_records_are_one_and_the_lowest_ttl_counts(records: ZoneRecords, add: Add) -> None:
    add("A", "TXT", '"x"', 60)
    add("a", "TXT", '"X"', 50)
    add("a", "TXT", '"x"', 70)
    add("n", "NS", "NS.hobbit.")
    add("n", "NS", "ns.hobbit.")
    assert records.nodes() == {
        b"\1a\6hobbit\0": {TXT: RRset(50, (b"\1x", b"\1X"))},
        b"\1n\6hobbit\0": {NS: RRset(60, (b"\2NS\6hobbit\0",))},
    }


def test_signatures_of_several_types_are_one_rrset(records: ZoneRecords, add: Add) -> None:
    add("a", "RRSIG", SIGNATURE, 60)
    add("a", "RRSIG", SIGNATURE.replace("A 8", "TXT 8", 1), 30)
    (rrset,) = records.nodes()[b"\1a\6hobbit\0"].values()
    assert rrset.ttl == 30
    assert len(rrset.rdatas) == 2


@pytest.mark.parametrize(
    ("before", "refused", "about"),
    [
        ([("a", "A", "192.0.2.1")], ("a", "CNAME", "b"), "an alias must not have other records"),
        ([("a", "CNAME", "b")], ("a", "A", "192.0.2.1"), "an alias must not have other records"),
        ([("a", "CNAME", "b")], ("a", "CNAME", "c"), "a second CNAME record; a name may have only one"),
        (
            [("@", "SOA", "ns h 1 2 3 4 5")],
            ("@", "SOA", "ns h 1 2 3 4 5"),
            "a second SOA record; a zone may have only one",
        ),
        ([], ("a", "SOA", "ns h 1 2 3 4 5"), "an SOA record must be at the apex of its zone"),
        ([], ("a", "A", "192.0.2.1", 2**31), "the TTL must be at most 2147483647 s, not 2147483648 s"),
    ],
)
def test_what_is_refused_leaves_no_trace(
    records: ZoneRecords, add: Add, before: list[tuple[str, str, str]], refused: tuple[str, str, str], about: str
) -> None:
    for record in before:
        add(*record)
    nodes = records.nodes()
    with pytest.raises(UnservableError, match=about):
        add(*refused)
    assert records.nodes() == nodes


def test_what_signs_and_denies_may_stand_beside_an_alias(records: ZoneRecords, add: Add) -> None:
    add("a", "CNAME", "b")
    add("a", "NSEC", "c.hobbit. CNAME")
    add("a", "RRSIG", SIGNATURE.replace("A 8", "CNAME 8", 1))
    assert set(records.nodes()[b"\1a\6hobbit\0"]) == {CNAME, 47, RRSIG}


def test_as_many_records_as_a_message_has_room_for(
    records: ZoneRecords, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zone_records, "MAX_RECORDS", 3)
    for number in (1, 2, 3, 1):
        add("a", "A", f"192.0.2.{number}")
    with pytest.raises(UnservableError, match="at most 3 A records"):
        add("a", "A", "192.0.2.4")
