"""How an order about a member is worded, and what is said of one that can't be understood."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.errors import LbdnsError
from lbdns.overrides import NO_OVERRIDES, Override
from lbdns.server.orders import overriding
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.server.orders.desk import desk


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("drain", {"member": ""}, "drain: member: is missing"),
        ("drain", {"member": 5}, "drain: member: is no text"),
        ("drain", {"member": "x" * 256}, "at most 255 characters"),
        ("drain", {"member": "frod"}, "no pool has 'frod'. Perhaps you meant 'frodo'?"),
        ("drain", {"member": "sauron"}, "no pool has 'sauron'; known: bilbo, frodo, gandalf"),
        ("drain", {"member": "frodo.hobbitt"}, "Perhaps you meant 'frodo.hobbit'?"),
        ("drain", {"pool": "wep"}, "there is no 'wep'. Perhaps you meant 'web'?"),
        ("drain", {"reason": "x" * 201}, "drain: reason: at most 200 characters"),
        ("drain", {"reason": "a\nb"}, "all of them printable"),
        ("drain", {"reason": "a\udcffb"}, "all of them printable"),
        ("drain", {"for_s": 0}, "drain: for_s: seconds, more than 0"),
        ("drain", {"for_s": math.nan}, "drain: for_s"),
        ("drain", {"for_s": "2h"}, "drain: for_s"),
        ("drain", {"force": 1}, "drain: force: is true or false"),
        ("drain", {"reasn": "x"}, "drain: there is no 'reasn'. Perhaps you meant 'reason'?"),
        ("undrain", {"for_s": 5}, "undrain: there is no 'for_s'"),
        ("undrain", {}, "frodo.hobbit is not drained; in force: nothing"),
        ("force", {}, "force: to: 'None' is none of up, down, auto"),
        ("force", {"to": "sideways"}, "is none of up, down, auto"),
        ("force", {"to": "auto", "for_s": 5}, "force: for_s: this ends an order"),
        ("force", {"to": "auto"}, "frodo.hobbit is not forced up or down; in force: nothing"),
        ("weight", {}, "weight: factor: 'None' is no number from 0.01 to 100"),
        ("weight", {"factor": True}, "is no number"),
        ("weight", {"factor": 0.001}, "is no number"),
        ("weight", {"factor": 1}, "frodo.hobbit is of no other weight than 1; in force: nothing"),
    ],
)
async def test_bad_words(tmp_path: Path, command: str, words: dict[str, object], said: str) -> None:
    async with desk(tmp_path) as server:
        with pytest.raises(LbdnsError) as refused:
            await server.say(command, **{"member": "frodo", **words})  # type: ignore[arg-type]
        assert said in str(refused.value)
        assert server.overriding.overrides == NO_OVERRIDES
        assert server.told() == []


@pytest.mark.parametrize("name", ["frodo", "FRODO", "frodo.hobbit", "Frodo.Hobbit."])
async def test_ways_to_name_a_member(tmp_path: Path, name: str) -> None:
    async with desk(tmp_path) as server:
        assert (await server.say("drain", name))["members"] == ["frodo.hobbit"]


async def test_there_is_an_end_to_what_can_be_ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overriding, "MAX_OVERRIDES", 1)
    async with desk(tmp_path) as server:
        await server.say("drain")
        await server.say("drain", reason="in its place")
        with pytest.raises(LbdnsError, match="there are 1 overrides; end some of them first"):
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
        with pytest.raises(LbdnsError, match=r"another machine in each zone: frodo\.hobbit, frodo\.shire; name it in"):
            await server.say("drain")
        assert (await server.say("drain", pool="shire"))["members"] == ["frodo.shire"]
        assert replace(server.overriding.overrides.items[0], since=0.0) == Override(
            "drain", "frodo.shire", "shire", by="root"
        )
