"""Tests of the program that compares the responses of packages for different processor architectures."""

from __future__ import annotations

from pathlib import Path

from lbdns_packaging.answer_digest import BATCH, answer_all, queries
from tests.needs import needs

EXAMPLE = Path(__file__).parents[2] / "packaging" / "etc" / "lbdns" / "lbdns" / "lbdns.toml"


def test_some_thousand_queries_have_ids_of_their_own() -> None:
    asked = queries()
    assert len(asked) == len({query[:2] for query in asked}) > 3000
    assert BATCH < 64, "a batch fits into one call of the native plane"


@needs(native=True)
def test_the_digest_depends_on_nothing_else() -> None:
    first, second = (answer_all(EXAMPLE) for _ in range(2))
    assert first == second
    assert first["queries"] == len(queries())
    slow = first["slow"]
    assert isinstance(slow, int)
    assert len(queries()) - slow > 3000, "thousands of queries take the fast path"
