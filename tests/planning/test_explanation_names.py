"""Tests of names in explanations: finding a pool by name, and errors for unknown names."""

from __future__ import annotations

import pytest

from lbdns.planning.explanation import find_owner, full_owner, unknown_name
from tests.answering.farms import HOBBIT, hobbit, make_farm, pool

ROOT = "$TTL 60\n@ SOA ns. host. 1 60 60 60 60\n@ NS ns.\nns A 127.0.0.1\nsam A 127.0.0.2\n"
FARM = make_farm(
    {"hobbit": HOBBIT, "": ROOT, "shire": HOBBIT},
    [
        pool(),
        pool("apex", names={"@": "best", "low.best": "weighted"}),
        pool("other", "shire", names={"best": "best", "lone": "best"}),
        pool("top", "", ["sam"], names={"@": "best", "alone": "best"}),
    ],
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("best.hobbit", ("web", "best")),
        ("BEST.Hobbit.", ("web", "best")),
        ("round.robin", ("web", "round.robin")),
        ("Round.Robin.hobbit", ("web", "round.robin")),
        ("round.robin.", None),
        ("hobbit", ("apex", "@")),
        ("hobbit.", ("apex", "@")),
        ("low.best.hobbit", ("apex", "low.best")),
        ("best.shire", ("other", "best")),
        ("lone", ("other", "lone")),
        ("best", None),
        ("@", None),
        (".", ("top", "@")),
        ("alone", ("top", "alone")),
        ("alone.", ("top", "alone")),
        ("", None),
        ("..", None),
        ("best..", None),
        ("gandalf.hobbit", None),
        ("explain.best.hobbit", None),
        ("bäst.hobbit", None),
    ],
)
def test_a_name_is_found(name: str, found: tuple[str, str] | None) -> None:
    owner = find_owner(FARM, name)
    assert (owner and (owner[0].name, owner[1])) == found
    if owner and found:
        assert find_owner(FARM, f"{full_owner(*owner).removesuffix('.')}.") == owner


def test_an_unknown_name() -> None:
    assert unknown_name(FARM, "Best") == "'Best' is a name in several zones: best.hobbit, best.shire; use the full name"
    assert (
        unknown_name(FARM, "besd.hobbit") == "no pool serves the name 'besd.hobbit'. Perhaps you meant 'best.hobbit'?"
    )
    assert unknown_name(FARM, "bset") == "no pool serves the name 'bset'. Perhaps you meant 'best'?"
    assert unknown_name(FARM, "x") == (
        "no pool serves the name 'x'; known: best.hobbit, round.robin.hobbit, weighted.hobbit, hobbit, "
        "low.best.hobbit, best.shire, lone.shire, ., alone"
    )
    many = hobbit(pool(names={f"n{number}": "best" for number in range(1000)}))
    assert unknown_name(many, "x").endswith(" and 980 more")
    assert len(unknown_name(many, "x")) < 350
    assert unknown_name(make_farm({"hobbit": HOBBIT}), "x") == "no pool serves the name 'x'"
