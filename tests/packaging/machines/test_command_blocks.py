"""Tests of reading a page's command blocks, and of the tutorial's own blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_machines.command_blocks import CommandBlock, command_blocks
from lbdns_machines.machine_run import TUTORIAL
from lbdns_machines.tutorial_steps import EACH, FOR_EACH

PAGE = """\
# Title

<!-- run on ns -->
```
first \\
    --option
second   # comment
```

Text with `code`.

<!-- not run: lines of a zone file -->
```
www A 192.0.2.1
```

<!-- run on each web server -->
```sh
third
```
"""


def test_blocks_have_machine_commands_and_line() -> None:
    assert command_blocks(PAGE) == [
        CommandBlock("ns", "first \\\n    --option\nsecond   # comment\n", 5),
        CommandBlock("each web server", "third\n", 19),
    ]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("Text:\n```\nls\n```\n", "line 2: no comment says where the block runs; put '<!-- run on MACHINE -->'"),
        ("```\nls\n```\n", "line 1: no comment says where the block runs"),
        ("<!-- run on ns -->\n\n```\nls\n```\n", "line 3: no comment says"),
        ("<!-- run on ns -->\n```\nls\n", "line 2: the block has no end; close it with ```"),
    ],
)
def test_a_block_that_cannot_be_run_is_an_error(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=message[:20]) as error:
        command_blocks(page)
    assert str(error.value).startswith(message)


@given(st.lists(st.tuples(st.sampled_from(["ns", "client"]), st.text("abc -\n", min_size=1)), max_size=5))
def test_every_block_is_found(blocks: list[tuple[str, str]]) -> None:
    page = "".join(f"text\n<!-- run on {where} -->\n```\n{commands}\n```\n" for where, commands in blocks)
    assert [(block.where, block.commands) for block in command_blocks(page)] == [
        (where, f"{commands}\n") for where, commands in blocks
    ]


def test_the_tutorial_says_where_each_block_runs() -> None:
    blocks = command_blocks(TUTORIAL.read_text())
    assert {block.where for block in blocks} == {"ns", "client", EACH, FOR_EACH}
    commands = "".join(block.commands for block in blocks)
    for command in ("apt-get install ./lbdns_*.deb", "lbdns init", "systemctl restart lbdns", "lbdns keygen", "dig @"):
        assert command in commands, command
