"""What the pages say about files, options and commands is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbdns.cli import COMMANDS
from lbdns.policies import POLICIES

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_table_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for page in PAGES:
        assert page.name == "README.md" or f"](docs/{page.name})" in readme, page.name


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"`lbdns {command}`" in readme


def test_every_key_and_policy_is_in_configuration() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    source = "".join(path.read_text() for path in sorted((ROOT / "lbdns" / "config").glob("*.py")))
    reading = r'(?:table|term)\.(?:string|integer|number|flag|one_of|each|strings|required|table)\(\s*"(\w+)"'
    keys = {*re.findall(reading, source), *re.findall(r'\w+\(table, "(\w+)"', source)}
    assert len(keys) > 15, "the pattern finds the keys of the configuration"
    for key in keys:
        assert f"`{key}`" in text, key
    for policy in POLICIES:
        assert f"`{policy}`" in text, policy


def test_every_make_target_that_pages_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z-]+)\b(?! [a-z])", page.read_text()):
            assert target in targets, f"{page.name}: make {target}"
