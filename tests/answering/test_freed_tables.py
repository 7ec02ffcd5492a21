"""Tests of the memory of replaced answer tables, which must be freed without the garbage collector: it ignores them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import Plane
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from tests.answering.farms import hobbit, pool
from tests.mmdb_files import database, place
from tests.planes import PLANES
from tests.planning.site_farm import CONFIGURATION, site_farm

NAMES = ("best.hobbit", "bilbo.hobbit", "far.hobbit", "out.hobbit", "x.wild.hobbit", "rr.hobbit", "ns.hobbit")
PLACES = 'database = "places.mmdb"\ncountries = { FR = ["par", "ber"] }\nnetworks'


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def ask_everything(table: AnswerTable) -> None:
    for name in NAMES:
        qname = b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"
        for qtype in (1, 28, 16):
            index = table.zone_of(qname, qtype)
            assert index
            entry = table.entry(index, qname, qtype)
            entry.for_client("10.2.0.1", b"")
            entry.for_client("11.0.0.1", b"")
            for kind in range(len(entry.variants)) if entry.kept else ():
                table.precompile(entry, kind)
    for cursor in table.cursors.values():
        cursor.next()


def require_no_garbage(farm: Farm, plane: Plane) -> None:
    table = AnswerTable(farm, plane)
    ask_everything(table)
    assert table.entries
    gc.collect()  # the garbage of compiling
    del table, farm
    assert gc.collect() == 0


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("answers", [1, 2])
def test_a_table_leaves_no_garbage(plane: Plane, answers: int) -> None:
    require_no_garbage(hobbit(pool(answers=answers, answer="address" if answers > 1 else "cname")), plane)


@pytest.mark.parametrize("plane", PLANES)
def test_a_table_with_sites_leaves_no_garbage(plane: Plane, tmp_path: Path) -> None:
    require_no_garbage(site_farm(tmp_path), plane)


@pytest.mark.parametrize("plane", PLANES)
def test_a_table_with_a_database_of_places_leaves_no_garbage(plane: Plane, tmp_path: Path) -> None:
    site_farm(tmp_path)
    (tmp_path / "lbdns.toml").write_text(CONFIGURATION.replace("networks", PLACES, 1))
    (tmp_path / "places.mmdb").write_bytes(database({"11.0.0.0/8": place("EU", "FR")}))
    require_no_garbage(load_farm(tmp_path / "lbdns.toml"), plane)
