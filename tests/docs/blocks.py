"""Finds the code blocks of the documentation, and the comments that state how each block of commands is tested.

A block of commands has the language ``sh`` (commands alone) or ``console`` (commands after ``$``, with their output).
The line before the block is an HTML comment, which readers do not see:

* ``<!-- run: demo -->``: a test runs the commands, here beside a running demo (``sandbox.py`` lists the settings)
* ``<!-- run: farm, exit status 2 -->``: the commands must exit with this status
* ``<!-- run: demo, until it prints "ready" -->``: each command is interrupted when it has printed the text
* ``<!-- run: checkout, after: touch FILE -->``: a test first runs another command, which readers need not run
* ``<!-- not run: REASON -->``: the commands are not run

The blocks of Getting started are not among them, because `make machines` runs them on machines that it boots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
GETTING_STARTED: Final = ROOT / "docs" / "tutorial" / "getting-started.md"
PAGES: Final = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {GETTING_STARTED})
COMMANDS: Final = ("sh", "console")
_FENCE: Final = re.compile(r"( *)```(\S*)$")
_COMMENT: Final = re.compile(r" *<!-- (.*) -->$")
_RUN: Final = re.compile(
    r'run: (?P<setting>\w+)(?:, exit status (?P<status>\d+)|, until it prints "(?P<until>[^"]+)")?'
    r"(?:, after: (?P<before>.+))?"
)
_NOT_RUN: Final = re.compile(r"not run: (?P<reason>\S.*)")


@dataclass(frozen=True)
class Block:
    """A code block. ``line`` is the number of its first fence, and ``comment`` the text of the comment before it."""

    page: str
    line: int
    language: str
    text: str
    comment: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def run(self) -> RunComment | None:
        """Return how a test runs the block, or None if its comment says something else."""
        found = _RUN.fullmatch(self.comment)
        if not found:
            return None
        return RunComment(found["setting"], int(found["status"] or 0), found["until"] or "", found["before"] or "")

    @property
    def reason(self) -> str:
        """Return the reason why the block is not run, or ""."""
        found = _NOT_RUN.fullmatch(self.comment)
        return found["reason"] if found else ""


@dataclass(frozen=True)
class RunComment:
    """How a test runs a block.

    ``setting`` is the setting's name and ``status`` the expected exit status. If ``until`` is not empty, the test stops
    each command when it has printed this text. ``before`` is a command that the test runs first, or "".
    """

    setting: str
    status: int = 0
    until: str = ""
    before: str = ""


@dataclass(frozen=True)
class Command:
    """A command of a block and the output that the page shows for it (None if the page shows no output)."""

    text: str
    shown: str | None = None


def blocks_of(page: str, text: str) -> list[Block]:
    """Return the code blocks of a page."""
    found: list[Block] = []
    lines = text.split("\n")
    start = indent = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and start is None:
            start, indent, language = number, len(fence[1]), fence[2]
        elif fence and start is not None:
            comment = _COMMENT.match(lines[start - 1]) if start else None
            body = "".join(f"{inner[indent:]}\n" for inner in lines[start + 1 : number])
            found.append(Block(page, start + 1, language, body, comment[1] if comment else ""))
            start = None
    return found


def all_blocks() -> list[Block]:
    """Return the code blocks of all pages, in order."""
    return [block for page in PAGES for block in blocks_of(str(page.relative_to(ROOT)), page.read_text())]


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a console block with their output, or the whole text of an sh block as one command."""
    if block.language == "sh":
        return [Command(block.text)]
    found: list[tuple[list[str], list[str]]] = []
    continued = False
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif not found:
            raise ValueError(f"{block.place}: a console block must begin with '$ '")
        else:
            found[-1][0 if continued else 1].append(line)
        continued = line.endswith("\\") and not found[-1][1]
    return [
        Command("".join(f"{line}\n" for line in text), "".join(f"{line}\n" for line in shown) if shown else None)
        for text, shown in found
    ]


def lines_of(block: Block) -> list[str]:
    """Return the commands of an sh block one by one, each with its continuation lines."""
    return [line for line in re.split(r"(?<!\\)\n", block.text) if line]
