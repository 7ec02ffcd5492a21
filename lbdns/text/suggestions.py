"""Suggests a known word that is similar to an unknown one, for the end of an error message. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``. Perhaps you meant 'x'?`` or, if no word is similar, all known words; "" if there are none."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f". Perhaps you meant {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""
