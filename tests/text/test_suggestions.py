"""Tests of suggestions: similar words are found, and the work and the text are limited however many words there are."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.text.suggestions import MOST_COMPARED, nearest

MANY = [f"web{number:05}" for number in range(10_000)]


def test_a_few_words() -> None:
    assert nearest("gandlaf", ["gandalf", "frodo"]) == ". Perhaps you meant 'gandalf'?"
    assert nearest("x", ["gandalf", "frodo"]) == "; known: gandalf, frodo"
    assert nearest("x", []) == ""


@pytest.mark.parametrize("word", ["web-00010", "web0010", "wbe00010", "web000100"])
def test_many_words(word: str) -> None:
    assert nearest(word, MANY).startswith(". Perhaps you meant 'web0")


def test_a_long_list_is_shortened() -> None:
    assert nearest("zzz", MANY).endswith(", web00019 and 9980 more")


@given(st.text(max_size=300))
def test_no_word_takes_long(word: str) -> None:
    compared = 0

    class Counting(difflib.SequenceMatcher[str]):
        def set_seq1(self, a: object) -> None:
            nonlocal compared
            compared += 1
            super().set_seq1(a)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difflib, "SequenceMatcher", Counting)
        assert len(nearest(word, MANY)) < 500
    assert compared <= MOST_COMPARED + 1
