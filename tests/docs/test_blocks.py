"""Tests that every block of commands in the documentation is run or states why it is not, and tests of these tests."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import COMMANDS, ROOT, Block, Command, all_blocks, blocks_of, commands_of, lines_of
from tests.docs.sandbox import SETTINGS
from tests.docs.shapes import missing_lines, shape

PROGRAMS = "lbdns|lbdns-[a-z]+|dig|curl|make|sudo|systemctl|journalctl|apt-get|pip|python|python3|ssh|scp|git|for|jq"
PAGE = """\
Text.

<!-- run: demo -->
```sh
lbdns status
```

```toml
a = 1
```

1. A list

   <!-- not run: it needs root -->
   ```sh
   lbdns a \\
       b
   lbdns c
   ```
"""


def mistakes(block: Block) -> list[str]:
    """Return what a block's language and comment lack."""
    if not block.language:
        return ["needs a language: sh or console for commands, text for anything else"]
    if block.language not in COMMANDS:
        looks = block.language == "text" and re.match(rf"(\$ |\.venv/|({PROGRAMS}) [a-z$'])", block.text)
        return ["looks like commands; give it the language sh or console"] if looks and "[" not in block.text else []
    if block.language == "console" and not block.text.startswith("$ "):
        return ["must begin with '$ '"]
    if block.run and not (SETTINGS / f"{block.run.setting}.sh").exists():
        return [f"names the unknown setting {block.run.setting}"]
    if not (block.run or block.reason):
        return ["needs a comment before it, such as <!-- run: demo --> or <!-- not run: REASON -->"]
    return []


@pytest.mark.parametrize("page", sorted({block.page for block in all_blocks()}))
def test_every_block_of_commands_is_run_or_states_why_not(page: str) -> None:
    found = [f"{block.place}: {mistake}" for block in all_blocks() if block.page == page for mistake in mistakes(block)]
    assert found == []


def test_files_that_reasons_name_exist() -> None:
    for block in all_blocks():
        for path in re.findall(r"\btests/[\w/.]*\w", block.comment):
            assert (ROOT / path).exists(), f"{block.place}: {path}"


def test_most_blocks_are_run() -> None:
    blocks = [block for block in all_blocks() if block.language in COMMANDS]
    assert sum(bool(block.run) for block in blocks) > len(blocks) / 2 > 25


def test_blocks_of_a_page() -> None:
    first, second, third = blocks_of("page.md", PAGE)
    assert first == Block("page.md", 4, "sh", "lbdns status\n", "run: demo")
    assert second == Block("page.md", 8, "toml", "a = 1\n", "")
    assert third.text == "lbdns a \\\n    b\nlbdns c\n"
    assert third.reason == "it needs root"
    assert lines_of(third) == ["lbdns a \\\n    b", "lbdns c"]


@pytest.mark.parametrize(
    ("language", "text", "comment", "mistake"),
    [
        ("sh", "lbdns status\n", "run: demo", None),
        ("sh", "lbdns status\n", "run: demo, exit status 1, after: true", None),
        ("sh", "lbdns watch\n", 'run: demo, until it prints "a b"', None),
        ("console", "$ lbdns status\nup\n", "not run: it needs root", None),
        ("text", "pool web: 1 of 3 members usable\n", "", None),
        ("", "lbdns status\n", "run: demo", "needs a language"),
        ("text", "lbdns status\n", "", "looks like commands"),
        ("text", "$ whoami\n", "", "looks like commands"),
        ("sh", "lbdns status\n", "", "needs a comment"),
        ("sh", "lbdns status\n", "not run: ", "needs a comment"),
        ("sh", "lbdns status\n", "not run:", "needs a comment"),
        ("sh", "lbdns status\n", "run: demo, sometimes", "needs a comment"),
        ("sh", "lbdns status\n", "run: moon", "unknown setting moon"),
        ("console", "lbdns status\n", "run: demo", "must begin with"),
    ],
)
def test_mistakes_of_a_block(language: str, text: str, comment: str, mistake: str | None) -> None:
    (block,) = blocks_of("page.md", f"<!-- {comment} -->\n```{language}\n{text}```\n")
    found = mistakes(block)
    assert (mistake in found[0] if found else False) if mistake else found == []


def test_commands_of_a_console_block() -> None:
    block = Block("page.md", 1, "console", "$ lbdns a \\\n    b\nout 1\nout 2\n$ lbdns c\n", "run: demo")
    assert commands_of(block) == [Command("lbdns a \\\n    b\n", "out 1\nout 2\n"), Command("lbdns c\n", None)]


@pytest.mark.parametrize(
    ("shown", "printed", "lacking"),
    [
        ("best.hobbit.  0 IN CNAME gandalf.hobbit.\n", "best.hobbit. 0  IN CNAME\tfrodo.hobbit.\n", []),
        ("mean 81.4 14.6 (light)\n", "mean 7 9,000 (heavy)\n", []),
        ("age 0.4 s, 2h\n", "age 12 min, 13h\n", []),
        ("until 16:05 by root\n", "until 2026-11-28 00:10 by root\n", []),
        ("a\n...\nc\n", "a\nb\nc\n", []),
        ("state=usable age=1s\n", "state=silent age=2s\n", []),
        ("state=usable age=1s\n", "state=silent\n", ["state=usable age=1s"]),
        ("mean 1 2\n", "mean 1\n", ["mean 1 2"]),
    ],
)
def test_shapes_of_output(shown: str, printed: str, lacking: list[str]) -> None:
    assert missing_lines(shown, printed) == lacking


def test_a_shape_keeps_the_words() -> None:
    line = "gandalf.hobbit: drained until 16:05 by root: new kernel"
    assert shape(line) == "MEMBER.hobbit: drained until TIME by root: new kernel"
