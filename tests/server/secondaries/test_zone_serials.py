"""Tests of served serials: they follow changes of the content, never decrease, and are kept in the state folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.answering.zone_lookup import negative_soa
from lbdns.config import NotifyTarget, PoolConfig
from lbdns.model.farm import Farm
from lbdns.server.secondaries.zone_serials import FILE_NAME, SerialFile, ServedSerial, ServedSerials, advance_serials
from lbdns_shared.endpoint import Endpoint
from tests.answering.farms import make_farm, pool

HOSTS = "@ NS ns\nns A 127.0.0.1\nbilbo A 127.0.0.2\nfrodo A 127.0.0.3\ngandalf AAAA ::1\n"
ORIGIN = b"\6hobbit\0"


def zone_text(serial: int, more: str = "", ttl: int = 300) -> str:
    return f"$TTL {ttl}\n@ SOA ns hostmaster {serial} 3600 900 604800 60\n{HOSTS}{more}"


def farm(serial: int, more: str = "", *pools: PoolConfig) -> Farm:
    return make_farm({"hobbit": zone_text(serial, more)}, pools or (pool(),))


def served(*farms: Farm, start: ServedSerials | None = None) -> list[int]:
    """Return the serials that the zone has while these farms are served one after the other."""
    serials = start or {}
    found = []
    for one in farms:
        now, serials = advance_serials(one, serials)
        found.append(now.zones[ORIGIN].serial)
    return found


class TestMoved:
    def test_the_first_is_the_file_s(self) -> None:
        assert served(farm(7)) == [7]

    def test_the_same_content_keeps_its_serial(self) -> None:
        assert served(farm(7), farm(7), farm(7)) == [7, 7, 7]

    def test_another_order_in_the_file_is_the_same_content(self) -> None:
        more = "a A 127.0.0.5\na A 127.0.0.6\nb A 127.0.0.7\n"
        turned = "b A 127.0.0.7\na A 127.0.0.6\na A 127.0.0.5\n"
        assert served(farm(7, more), farm(7, turned)) == [7, 7]

    @pytest.mark.parametrize(
        "changed",
        [
            farm(7, "a A 127.0.0.9\n"),
            farm(7, "", pool(members=("bilbo", "frodo"))),
            farm(7, "", pool(names={"other": "best"})),
            make_farm({"hobbit": zone_text(7, ttl=301)}, [pool()]),
            make_farm({"hobbit": zone_text(7).replace("604800", "604801")}, [pool()]),
        ],
        ids=["a record", "a member", "a pool's name", "a TTL", "the SOA"],
    )
    def test_other_content_is_one_more(self, changed: Farm) -> None:
        assert served(farm(7), changed, changed, farm(7)) == [7, 8, 8, 9]

    def test_what_no_secondary_sees_changes_nothing(self) -> None:
        assert served(farm(7), farm(7, "", replace(pool(), min_usable=0.9, ttl=60, name="x"))) == [7, 7]

    def test_a_file_that_moves_ahead_wins(self) -> None:
        assert served(farm(7), farm(8), farm(2026_01_01_00, "a A 127.0.0.9\n")) == [7, 8, 2026_01_01_00]

    def test_a_file_that_catches_up_does_not_hide_a_change(self) -> None:
        twice = [farm(7, f"a A 127.0.0.{i}\n") for i in (1, 2)]
        assert served(farm(7), *twice, farm(8, "a A 127.0.0.3\n"), farm(10, "a A 127.0.0.3\n"), farm(11)) == [
            7, 8, 9, 10, 10, 11,
        ]  # fmt: skip

    def test_round_the_end_of_numbers(self) -> None:
        assert served(farm(2**32 - 1), farm(2**32 - 1, "a A 127.0.0.9\n"), farm(1)) == [2**32 - 1, 0, 1]

    def test_a_file_that_goes_back_is_warned_of_and_does_not_take_secondaries_back(self) -> None:
        _, serials = advance_serials(farm(7), {})
        back, serials = advance_serials(farm(3, "a A 127.0.0.9\n"), serials)
        assert back.zones[ORIGIN].serial == 8
        assert back.warnings == (
            "zone hobbit: the serial in the file decreased from 7 to 3; secondaries already have 7, so 8 is served",
        )
        again, serials = advance_serials(farm(3, "a A 127.0.0.9\n"), serials)
        assert (again.zones[ORIGIN].serial, again.warnings) == (8, ())

    def test_zones_move_alone_and_are_remembered_while_they_are_gone(self) -> None:
        both = make_farm({"hobbit": zone_text(7), "orc": zone_text(1)})
        _, serials = advance_serials(both, {})
        changed = make_farm({"hobbit": zone_text(7, "a A 127.0.0.9\n"), "orc": zone_text(1)})
        now, serials = advance_serials(changed, serials)
        assert {zone.name: zone.serial for zone in now.zones.values()} == {"hobbit": 8, "orc": 1}
        _, serials = advance_serials(make_farm({"orc": zone_text(1)}), serials)
        now, _ = advance_serials(make_farm({"hobbit": zone_text(7)}), serials)
        assert now.zones[ORIGIN].serial == 9

    def test_everything_in_the_farm_has_the_serial(self) -> None:
        _, serials = advance_serials(farm(7), {})
        now, _ = advance_serials(farm(7, "a A 127.0.0.9\n"), serials)
        zone = now.zones[ORIGIN]
        assert now.pools[0].zone is zone
        assert negative_soa(zone).rdata[-20:-16] == (8).to_bytes(4, "big")
        assert zone.nodes[ORIGIN].keys() == farm(7).zones[ORIGIN].nodes[ORIGIN].keys()


def in_folder(folder: Path, one: Farm, secondaries: bool = True) -> Farm:
    """Return the farm with this state folder, with or without secondaries."""
    notify = (NotifyTarget(Endpoint("127.0.0.1", 5)),) if secondaries else ()
    zones = tuple(replace(zone, notify=notify) for zone in one.config.zones)
    server = replace(one.config.server, state_dir=folder)
    return replace(one, config=replace(one.config, zones=zones, server=server))


class TestFile:
    def test_serials_outlive_a_restart(self, tmp_path: Path) -> None:
        folder = tmp_path / "state"
        first = in_folder(folder, farm(7))
        _, serials = advance_serials(first, SerialFile().read(first))
        SerialFile().write(first, serials)
        second = in_folder(folder, farm(7, "a A 127.0.0.9\n"))
        now, _ = advance_serials(second, SerialFile().read(second))
        assert now.zones[ORIGIN].serial == 8
        assert list(folder.iterdir()) == [folder / FILE_NAME], "nothing is left beside it"

    def test_nothing_is_kept_for_nobody(self, tmp_path: Path) -> None:
        lonely = in_folder(tmp_path / "state", farm(7), secondaries=False)
        SerialFile().write(lonely, advance_serials(lonely, {})[1])
        assert not (tmp_path / "state").exists()
        assert SerialFile().read(lonely) == {}

    def test_the_first_time_is_no_cause_for_a_warning(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        assert SerialFile().read(in_folder(tmp_path, farm(7))) == {}
        assert not caplog.records

    @pytest.mark.parametrize(
        "content",
        [
            "", "{", "[]", "5", '"x"', "{}", '{"zones": []}', '{"zones": {"hobbit": 5}}', '{"zones": {"hobbit": {}}}',
            '{"zones": {"hobbit": {"digest": "x", "file": -1, "serial": 1}}}',
            '{"zones": {"hobbit": {"digest": "x", "file": 1, "serial": 4294967296}}}',
            '{"zones": {"hobbit": {"digest": "x", "file": true, "serial": 1}}}',
            '{"zones": {"hobbit": {"digest": 5, "file": 1, "serial": 1}}}',
            '{"zones": {"hobbit": {"digest": "x", "file": 1, "serial": 1, "more": 1}}}', "[" * 10_000, "\xff\xfe",
        ],
    )  # fmt: skip
    def test_a_file_that_holds_none(self, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
        (tmp_path / FILE_NAME).write_text(content, "latin-1")
        assert SerialFile().read(in_folder(tmp_path, farm(7))) == {}
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith(
            f"{tmp_path}/{FILE_NAME}: not a valid file of zone serials; it will be replaced"
        )

    def test_a_folder_that_can_not_be_used_costs_one_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "state").write_text("a file")
        one = in_folder(tmp_path / "state", farm(7))
        keeper = SerialFile()
        _, serials = advance_serials(one, {})
        for _ in range(3):
            keeper.write(one, serials)
        assert [record.getMessage() for record in caplog.records] == [
            f"{tmp_path}/state/{FILE_NAME}: cannot write the file: File exists; "
            "if a zone changes during a restart, its serial may stay the same"
        ]

    def test_a_file_that_can_not_be_read(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / FILE_NAME).mkdir()
        assert SerialFile().read(in_folder(tmp_path, farm(7))) == {}
        assert "cannot read the file: Is a directory" in caplog.text

    def test_what_is_written_is_what_is_read(self, tmp_path: Path) -> None:
        zones: Mapping[str, ServedSerial] = {"": ServedSerial("abc", 0, 2**32 - 1), "hobbit": ServedSerial("d", 7, 8)}
        one = in_folder(tmp_path, farm(7))
        SerialFile().write(one, zones)
        assert SerialFile().read(one) == zones
