"""Tests that the list of state files is complete."""

from __future__ import annotations

import re
from pathlib import Path

from lbdns.backup.state_files import STATE_FILES

ROOT = Path(__file__).parents[2]


def test_every_file_in_the_state_directory_is_listed() -> None:
    """Modules take the names of files in the configured directory from constants FILE_NAME, and each is listed."""
    sources = [path.read_text() for folder in ("lbdns", "collector") for path in (ROOT / folder).rglob("*.py")]
    used = {name for text in sources for name in re.findall(r"server\.state_dir / (\w+)", text)}
    assert used == {"FILE_NAME"}
    constant = re.compile(r'^FILE_NAME: Final = "([^"]+)"', re.MULTILINE)
    assert {name for text in sources for name in constant.findall(text)} == {*STATE_FILES, "lock"}
