"""Suggests known words that are similar to an unknown word. The suggestion is appended to an error message. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

MOST_COMPARED: Final = (
    200  # words; comparing as many takes about 1 ms, and clients can ask for unknown words at any rate
)
MOST_LISTED: Final = 20  # words


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return text for the end of an error message: the most similar known word, or "" if no word is similar."""
    close = difflib.get_close_matches(word, _candidates(word, list(known)), n=1, cutoff=0.6)
    return f". Perhaps you meant {close[0]!r}?" if close else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return text for the end of an error message: a suggestion, a list of known words, or "" if no words are known."""
    names = list(known)
    if close := suggestion(word, names):
        return close
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"; known: {', '.join(names[:MOST_LISTED])}{more}" if names else ""


def _candidates(word: str, names: Sequence[str]) -> Sequence[str]:
    """Return the names to compare with ``word``.

    If there are many names, only names that begin or end like ``word`` are returned.
    """
    if len(names) <= MOST_COMPARED:
        return names
    half = max(len(word) // 2, 1)
    head, tail, least, most = word[:half], word[-half:], len(word) - 2, len(word) + 2
    alike = (n for n in names if least <= len(n) <= most and (n.startswith(head) or n.endswith(tail)))
    return sorted(islice(alike, 10 * MOST_COMPARED), key=lambda name: _differences(word, name))[:MOST_COMPARED]


def _differences(word: str, name: str) -> int:
    return sum(a != b for a, b in zip(word, name, strict=False)) + abs(len(word) - len(name))
