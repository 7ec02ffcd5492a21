"""Sorts error messages of the form ``FILE:LINE: where: what`` by file, then by line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: An error message with a line number
FINDING: Final = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d*): (?P<what>.*)", re.DOTALL)


def in_order(findings: Sequence[str], first: str = "") -> list[str]:
    """Return the error messages, grouped by file and sorted by line within each file.

    The messages about the file ``first`` come first. The other files follow in the order in which they first appear in
    ``findings``.
    """
    keys = [(m["file"], int(m["line"])) if (m := FINDING.match(text)) else (text, 0) for text in findings]
    files = [first, *(file for file, _ in keys)]
    places = [(files.index(file), line, at) for at, (file, line) in enumerate(keys)]
    return [findings[at] for _, _, at in sorted(places)]
