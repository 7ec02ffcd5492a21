"""Tests of override requests: valid values of the fields, and errors for invalid values."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.model.overrides import NO_OVERRIDES, Override
from lbdns.server.control import override_manager
from lbdns_shared.errors import LbdnsError
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.server.control.desk import desk


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("drain", {"member": ""}, "drain: 'member' is missing"),
        ("drain", {"member": 5}, "drain: 'member' must be a string"),
        ("drain", {"member": "x" * 256}, "must consist of at most 255 printable characters"),
        ("drain", {"member": "frod"}, "no pool has 'frod'. Perhaps you meant 'frodo'?"),
        ("drain", {"member": "sauron"}, "no pool has 'sauron'; known: bilbo, frodo, gandalf"),
        ("drain", {"member": "frodo.hobbitt"}, "Perhaps you meant 'frodo.hobbit'?"),
        ("drain", {"pool": "wep"}, "'wep' does not exist. Perhaps you meant 'web'?"),
        ("drain", {"reason": "x" * 201}, "drain: 'reason' must consist of at most 200 printable characters"),
        ("drain", {"reason": "a\nb"}, "printable characters"),
        ("drain", {"reason": "a\udcffb"}, "printable characters"),
        ("drain", {"for_s": 0}, "drain: 'for_s' must be a number of seconds greater than 0"),
        ("drain", {"for_s": math.nan}, "drain: 'for_s'"),
        ("drain", {"for_s": 10**400}, "drain: 'for_s' must be a number of seconds greater than 0"),
        ("drain", {"for_s": "2h"}, "drain: 'for_s'"),
        ("drain", {"force": 1}, "drain: 'force' must be true or false"),
        ("drain", {"reasn": "x"}, "drain: there is no field 'reasn'. Perhaps you meant 'reason'?"),
        ("undrain", {"for_s": 5}, "undrain: there is no field 'for_s'"),
        ("undrain", {}, "frodo.hobbit is not drained; overrides in force: none"),
        ("force", {}, "force: 'to' must be one of up, down, auto, not 'None'"),
        ("force", {"to": "sideways"}, "must be one of up, down, auto"),
        ("force", {"to": "auto", "for_s": 5}, "force: 'for_s' must be omitted"),
        ("force", {"to": "auto"}, "frodo.hobbit is not forced up or down; overrides in force: none"),
        ("weight", {}, "weight: 'factor' must be a number from 0.01 to 100, not 'None'"),
        ("weight", {"factor": True}, "must be a number"),
        ("weight", {"factor": 10**400}, "must be a number"),
        ("weight", {"factor": -(10**400)}, "must be a number"),
        ("weight", {"factor": 0.001}, "must be a number"),
        ("weight", {"factor": 1}, "frodo.hobbit is not weighted; overrides in force: none"),
    ],
)
async def test_invalid_fields(tmp_path: Path, command: str, words: dict[str, object], said: str) -> None:
    async with desk(tmp_path) as server:
        with pytest.raises(LbdnsError) as refused:
            await server.say(command, **{"member": "frodo", **words})  # type: ignore[arg-type]
        assert said in str(refused.value)
        assert server.manager.overrides == NO_OVERRIDES
        assert server.recorded() == []


@pytest.mark.parametrize("name", ["frodo", "FRODO", "frodo.hobbit", "Frodo.Hobbit."])
async def test_forms_of_a_member_name(tmp_path: Path, name: str) -> None:
    async with desk(tmp_path) as server:
        assert (await server.say("drain", name))["members"] == ["frodo.hobbit"]


async def test_the_number_of_overrides_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_manager, "MAX_OVERRIDES", 1)
    async with desk(tmp_path) as server:
        await server.say("drain")
        await server.say("drain", reason="in its place")
        with pytest.raises(LbdnsError, match="1 overrides are in force, and the limit is 1; end some overrides first"):
            await server.say("drain", "bilbo")


async def test_one_name_in_two_zones(tmp_path: Path) -> None:
    pools = [pool("web"), pool("shire", zone="shire", names={"shire": "round_robin"})]
    same = make_farm({"hobbit": HOBBIT, "shire": HOBBIT}, pools)
    async with desk(tmp_path / "same", same) as server:
        answer = await server.say("drain")
        assert answer["members"] == ["frodo.hobbit", "frodo.shire"], "one machine under two names"
        assert server.order() == server.order("shire") == ["bilbo", "gandalf"]
        await server.say("undrain", "frodo.shire")
        assert (server.order(), server.order("shire")) == (["bilbo", "gandalf"], ["bilbo", "frodo", "gandalf"])
    other = make_farm({"hobbit": HOBBIT, "shire": HOBBIT.replace("127.0.0.17", "127.0.0.27")}, pools)
    async with desk(tmp_path / "other", other) as server:
        with pytest.raises(LbdnsError, match=r"a different host in each zone \(frodo\.hobbit, frodo\.shire\); use"):
            await server.say("drain")
        assert (await server.say("drain", pool="shire"))["members"] == ["frodo.shire"]
        assert replace(server.manager.overrides.items[0], since=0.0) == Override(
            "drain", "frodo.shire", "shire", by="root"
        )
