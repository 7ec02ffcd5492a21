"""Reads the command blocks of a page of the documentation, so that machines can run exactly these commands.

A comment in the line before a block names the machine: ``<!-- run on ns -->``. Readers of the page do not see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FENCE: Final = "```"
_MARK: Final = re.compile(r"<!-- run on (?P<where>[\w -]+) -->|<!-- not run: .+ -->")


@dataclass(frozen=True)
class CommandBlock:
    """A block of commands on a page.

    ``where`` names the machines that run the block, as written in the page. ``line`` is the line number of the first
    command.
    """

    where: str
    commands: str
    line: int


def command_blocks(page: str) -> list[CommandBlock]:
    """Return the blocks of ``page`` that machines run, in order.

    Raises ValueError if a block lacks the comment that says where it runs, or has no end.
    """
    blocks: list[CommandBlock] = []
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        if lines[number].startswith(_FENCE):
            end = _end_of_block(lines, number)
            mark = _MARK.fullmatch(lines[number - 1]) if number else None
            if not mark:
                raise ValueError(
                    f"line {number + 1}: no comment says where the block runs; put '<!-- run on MACHINE -->' or "
                    "'<!-- not run: REASON -->' in the line before it"
                )
            if mark["where"]:
                commands = "\n".join(lines[number + 1 : end]) + "\n"
                blocks.append(CommandBlock(mark["where"], commands, number + 2))
            number = end
        number += 1
    return blocks


def _end_of_block(lines: list[str], start: int) -> int:
    try:
        return lines.index(_FENCE, start + 1)
    except ValueError:
        raise ValueError(f"line {start + 1}: the block has no end; close it with {_FENCE}") from None
