"""Reads the stat file as scripts read it."""

from __future__ import annotations


def rows(text: str) -> dict[str, dict[str, str]]:
    """Return the file's lines, keyed by member name. Each line is a mapping from columns to fields."""
    header, *lines = text.splitlines()
    columns = header.removeprefix("# ").split(":")
    found = {line.split(":")[0]: dict(zip(columns, line.split(":"), strict=True)) for line in lines}
    assert len(found) == len(lines)
    return found
