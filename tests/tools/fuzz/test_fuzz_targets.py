"""Checks that the fuzz targets accept seeds and mutated inputs, and that they detect bugs inserted by the tests."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import lbdns_shared.report
from lbdns.answering.responder import Responder
from lbdns.scores.thesis import THESIS
from lbdns.zones import master_file
from lbdns.zones.master_file import Zone
from lbdns_collector.reports.report_table import ACCEPTED, ReportTable
from lbdns_shared.errors import ZoneFileError
from lbdns_tools.fuzz import query_target, report_target, zonefile_target
from lbdns_tools.fuzz.fuzz_targets import TARGETS, TooSlowError, load_target, run_target

SEEDS = [(target, name) for target in TARGETS for name in load_target(target).seeds()]


@pytest.mark.parametrize(("target", "name"), SEEDS, ids=["-".join(seed) for seed in SEEDS])
def test_a_target_accepts_its_seeds(target: str, name: str) -> None:
    run_target(load_target(target), load_target(target).seeds()[name])


def bytewise(data: bytes, max_size: int) -> bytes:
    """A stand-in for libFuzzer's mutator: changes or inserts one byte."""
    chance = random.Random(data)
    at = chance.randrange(len(data) + 1)
    return (data[:at] + bytes((chance.randrange(256),)) + data[at + chance.randrange(2) :])[:max_size]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_accepts_mutated_seeds_of_limited_length(name: str) -> None:
    target = load_target(name)
    chance = random.Random(20251121)
    inputs = list(target.seeds().values())
    made = set(inputs)
    for at in range(60):
        data = target.mutate(chance.choice(inputs), 600, chance, bytewise)
        assert len(data) <= 600
        run_target(target, data)
        inputs.append(data)
        made.add(data)
        assert at < 20 or len(made) > len(target.seeds()) + at // 2, "most of them are new"


class TestReport:
    def test_datagrams_are_joined_and_split(self) -> None:
        datagrams = [(0.0, b""), (0.25, b"LBR1"), (63.75, bytes(1200))]
        assert list(report_target.split_datagrams(report_target.join_datagrams(datagrams))) == datagrams
        assert list(report_target.split_datagrams(b"\4\0\7abc")) == [(1.0, b"abc")]

    def test_a_tag_is_corrected(self) -> None:
        (_, unsigned), *_ = report_target.split_datagrams(report_target.seeds()["unsigned"])
        table = ReportTable(report_target.HOSTS, [report_target.KEY], THESIS)
        assert table.accept(unsigned, "", 0.0, report_target.WALL) == "bad_tag"
        assert table.accept(report_target.with_valid_tag(unsigned), "", 0.0, report_target.WALL) == ACCEPTED

    def test_an_exception_in_the_decoder_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lbdns_shared.report, "Report", lambda **_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            report_target.check(report_target.seeds()["data"])

    def test_a_report_that_counts_twice_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lbdns_collector.reports.reporting_peer.ReportingPeer.has_seen", lambda *_: False)
        with pytest.raises(AssertionError, match="a report counted twice"):
            report_target.check(report_target.seeds()["data"])


class TestZoneFile:
    def test_files_are_separated(self) -> None:
        assert list(zonefile_target.files(b"x\n;;; a\ny\n;;; b\n")) == [("zone", b"x\n"), ("a", b"y\n"), ("b", b"")]

    def test_included_files_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[Zone] = []
        monkeypatch.setattr(zonefile_target, "_check_served", read.append)
        zonefile_target.check(zonefile_target.seeds()["include"])
        assert {b"\1a\6hobbit\0", b"\1b\6hobbit\0", b"\1b\3sub\6hobbit\0"} <= set(read[0].nodes)

    def test_an_exception_in_the_reader_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(master_file, "_UNFIT", ())
        with pytest.raises(OverflowError):
            zonefile_target.check(zonefile_target.HEAD.encode() + b"a LOC 1 N 1 E infm\n")

    def test_an_error_of_two_lines_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise ZoneFileError("x: zone hobbit: a\nb")

        monkeypatch.setattr(zonefile_target, "parse_zone", fail)
        with pytest.raises(AssertionError, match="must not contain a line break"):
            zonefile_target.check(b"x")

    def test_an_answer_without_the_zone_s_record_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(self: Responder, query: bytes, *_: object) -> bytes:
            return query[:2] + b"\x84\0" + query[4:]

        monkeypatch.setattr(Responder, "respond", none)
        with pytest.raises(AssertionError, match="must contain exactly the zone's records"):
            zonefile_target.check(zonefile_target.HEAD.encode() + b"a A 192.0.2.1\n")


class TestQuery:
    @pytest.mark.parametrize(
        ("about", "change"),
        [
            ("another id", lambda response: b"xx" + response[2:]),
            ("another question", lambda response: response[:13] + b"X" + response[14:]),
            ("another opcode", lambda response: response[:2] + bytes((response[2] | 8,)) + response[3:]),
            ("AD or CD", lambda response: response[:3] + bytes((response[3] | 0x10,)) + response[4:]),
            ("an OPT record", lambda response: response[:11] + b"\1" + response[12:] + b"\0\0\x29\4\xd0\0\0\0\0\0\0"),
            (
                "too long",
                lambda response: response[:11] + b"\1" + response[12:] + b"\0\xff\0\0\1\0\0\0\0\2\0" + bytes(512),
            ),
            ("extra junk", lambda response: response + b"\0"),
            ("malformed", lambda response: response[:-1]),
            ("did not answer", lambda response: None),
        ],
    )
    def test_a_wrong_response_is_found(
        self, about: str, change: Callable[[bytes], bytes | None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = Responder.respond

        def wrong(self: Responder, *arguments: object) -> object:
            response = right(self, *arguments)  # type: ignore[arg-type]
            assert isinstance(response, bytes)
            return change(response)

        data = query_target.seeds()["type-1"]
        query_target.check(data)
        monkeypatch.setattr(Responder, "respond", wrong)
        with pytest.raises(Exception, match=about):
            query_target.check(data)

    def test_a_different_second_answer_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = Responder.respond
        calls: list[object] = []

        def wrong(self: Responder, *arguments: object) -> object:
            calls.append(arguments)
            response = right(self, *arguments)  # type: ignore[arg-type]
            assert isinstance(response, bytes)
            return response if len(calls) == 1 else response[:2] + b"\x80" + response[3:]

        monkeypatch.setattr(Responder, "respond", wrong)
        with pytest.raises(AssertionError, match="the second response to the query differs"):
            query_target.check(query_target.seeds()["type-1"])


def test_a_slow_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_target, "SECONDS", 0.0)
    with pytest.raises(TooSlowError, match=r"the limit is 0 s"):
        run_target(load_target("report"), report_target.seeds()["burst"])
