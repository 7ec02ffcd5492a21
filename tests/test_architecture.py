"""Checks that docs/architecture.md lists every source file once, in the right table, with names from that file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def mapped_files(text: str) -> list[str]:
    """Return the paths in the tables below the heading "Every file"."""
    found, folder = [], ""
    for line in text.partition("## Every file")[2].splitlines():
        if heading := re.fullmatch(r"### ([\w./-]+)/", line):
            folder = "" if heading[1] == "." else f"{heading[1]}/"
        elif row := re.match(r"\| `([\w.-]+\.(?:py|rs|js))` \| [^\s|]", line):
            found.append(folder + row[1])
    return found


def mapped_names(text: str) -> list[tuple[str, str]]:
    """Return a pair (file, name) for every name in the last column of each file's row."""
    found, folder = [], ""
    for line in text.partition("## Every file")[2].splitlines():
        if heading := re.fullmatch(r"### ([\w./-]+)/", line):
            folder = "" if heading[1] == "." else f"{heading[1]}/"
        elif row := re.fullmatch(r"\| `([\w.-]+\.(?:py|rs|js))` \| .* \| ([^|]*) \|", line):
            found += [(folder + row[1], name) for name in re.findall(r"`(\w+)`", row[2])]
    return found


def source_files() -> list[str]:
    command = ["git", "ls-files", "*.py", "*.rs", "*.js"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    left_out = ("tests/", "collector/lbdns_collector/web/static/vendor/")
    return [name for name in names if not name.startswith(left_out) and not name.endswith("__init__.py")]


def test_every_source_file_is_mapped_once() -> None:
    assert sorted(mapped_files((ROOT / "docs" / "architecture.md").read_text())) == sorted(source_files())


def test_rows_without_a_description_are_no_entries() -> None:
    text = "## Every file\n### lbdns/zones/\n| `names.py` | domain names |\n| `empty.py` | |\n"
    assert mapped_files(text) == ["lbdns/zones/names.py"]


def test_every_name_is_in_its_file() -> None:
    names = mapped_names((ROOT / "docs" / "architecture.md").read_text())
    assert len(names) > 500
    assert [(file, name) for file, name in names if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []
