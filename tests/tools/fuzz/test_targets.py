"""The targets: their seeds reach what they are for, what is mutated keeps to its bounds, and what is wrong is found."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import lbdns.report
from lbdns import zonefile
from lbdns.answering.respond import Responder
from lbdns.errors import ZoneFileError
from lbdns.zonefile import Zone
from lbdns_collector.score import THESIS
from lbdns_collector.table import ACCEPTED, Table
from lbdns_tools.fuzz import query, report
from lbdns_tools.fuzz import zonefile as zonefile_target
from lbdns_tools.fuzz.targets import TARGETS, TooSlowError, load, run

SEEDS = [(target, name) for target in TARGETS for name in load(target).seeds()]


@pytest.mark.parametrize(("target", "name"), SEEDS, ids=["-".join(seed) for seed in SEEDS])
def test_seeds_are_taken(target: str, name: str) -> None:
    run(load(target), load(target).seeds()[name])


def bytewise(data: bytes, max_size: int) -> bytes:
    """What stands in for libFuzzer's own mutator: one byte is another, or one too many."""
    chance = random.Random(data)
    at = chance.randrange(len(data) + 1)
    return (data[:at] + bytes((chance.randrange(256),)) + data[at + chance.randrange(2) :])[:max_size]


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds_are_taken_and_keep_to_their_length(name: str) -> None:
    target = load(name)
    chance = random.Random(20251121)
    inputs = list(target.seeds().values())
    made = set(inputs)
    for at in range(60):
        data = target.mutate(chance.choice(inputs), 600, chance, bytewise)
        assert len(data) <= 600
        run(target, data)
        inputs.append(data)
        made.add(data)
        assert at < 20 or len(made) > len(target.seeds()) + at // 2, "most of them are new"


class TestReport:
    def test_datagrams_are_framed_and_taken_out_again(self) -> None:
        datagrams = [(0.0, b""), (0.25, b"LBR1"), (63.75, bytes(1200))]
        assert list(report.frames(report.framed(datagrams))) == datagrams
        assert list(report.frames(b"\4\0\7abc")) == [(1.0, b"abc")]

    def test_a_tag_is_put_right(self) -> None:
        (_, unsigned), *_ = report.frames(report.seeds()["unsigned"])
        table = Table(report.HOSTS, [report.KEY], THESIS)
        assert table.accept(unsigned, "", 0.0, report.WALL) == "bad_tag"
        assert table.accept(report.put_right(unsigned), "", 0.0, report.WALL) == ACCEPTED

    def test_what_escapes_the_decoder_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lbdns.report, "_shown", lambda value: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            report.check(report.framed([(0, b"LBR1" + bytes(4) + b"\1a\x80" + bytes(16))]))

    def test_what_counts_twice_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lbdns_collector.table._Peer.has_seen", lambda *_: False)
        with pytest.raises(AssertionError, match="nothing counts twice"):
            report.check(report.seeds()["data"])


class TestZoneFile:
    def test_files_are_told_apart(self) -> None:
        assert list(zonefile_target.files(b"x\n;;; a\ny\n;;; b\n")) == [("zone", b"x\n"), ("a", b"y\n"), ("b", b"")]

    def test_included_files_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[Zone] = []
        monkeypatch.setattr(zonefile_target, "_check_served", read.append)
        zonefile_target.check(zonefile_target.seeds()["include"])
        assert {b"\1a\6hobbit\0", b"\1b\6hobbit\0", b"\1b\3sub\6hobbit\0"} <= set(read[0].nodes)

    def test_what_escapes_the_reader_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(zonefile, "_UNFIT", ())
        with pytest.raises(OverflowError):
            zonefile_target.check(zonefile_target.HEAD.encode() + b"a LOC 1 N 1 E infm\n")

    def test_an_error_of_two_lines_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise ZoneFileError("x: zone hobbit: a\nb")

        monkeypatch.setattr(zonefile_target, "parse_zone", fail)
        with pytest.raises(AssertionError, match="one line"):
            zonefile_target.check(b"x")

    def test_an_answer_that_is_not_the_zone_s_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(self: Responder, asked: bytes, *_: object) -> bytes:
            return asked[:2] + b"\x84\0" + asked[4:]

        monkeypatch.setattr(Responder, "respond", none)
        with pytest.raises(AssertionError, match="not what the zone has"):
            zonefile_target.check(zonefile_target.HEAD.encode() + b"a A 192.0.2.1\n")


class TestQuery:
    @pytest.mark.parametrize(
        ("about", "change"),
        [
            ("another id", lambda said: b"xx" + said[2:]),
            ("another question", lambda said: said[:13] + b"X" + said[14:]),
            ("another opcode", lambda said: said[:2] + bytes((said[2] | 8,)) + said[3:]),
            ("AD or CD", lambda said: said[:3] + bytes((said[3] | 0x10,)) + said[4:]),
            ("an OPT record", lambda said: said[:11] + b"\1" + said[12:] + b"\0\0\x29\4\xd0\0\0\0\0\0\0"),
            ("too long", lambda said: said[:11] + b"\1" + said[12:] + b"\0\xff\0\0\1\0\0\0\0\2\0" + bytes(512)),
            ("extra junk", lambda said: said + b"\0"),
            ("malformed", lambda said: said[:-1]),
            ("not answered", lambda said: None),
        ],
    )
    def test_a_wrong_response_is_found(
        self, about: str, change: Callable[[bytes], bytes | None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = Responder.respond

        def wrong(self: Responder, *asked: object) -> object:
            said = right(self, *asked)  # type: ignore[arg-type]
            assert isinstance(said, bytes)
            return change(said)

        data = query.seeds()["type-1"]
        query.check(data)
        monkeypatch.setattr(Responder, "respond", wrong)
        with pytest.raises(Exception, match=about):
            query.check(data)

    def test_another_answer_the_second_time_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = Responder.respond
        asked: list[object] = []

        def wrong(self: Responder, *given: object) -> object:
            asked.append(given)
            said = right(self, *given)  # type: ignore[arg-type]
            assert isinstance(said, bytes)
            return said if len(asked) == 1 else said[:2] + b"\x80" + said[3:]

        monkeypatch.setattr(Responder, "respond", wrong)
        with pytest.raises(AssertionError, match="asked again"):
            query.check(query.seeds()["type-1"])


def test_what_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SECONDS", 0.0)
    with pytest.raises(TooSlowError, match=r"limit 0 s"):
        run(load("report"), report.seeds()["burst"])
