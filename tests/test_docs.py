"""Tests of the documentation: links and anchors, commands, configuration keys, and make targets."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from lbdns import config
from lbdns.cli import COMMANDS
from lbdns.policies import POLICIES
from lbdns.scores import SCORES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the target file and the anchor (or "") of every link to a file in the project."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return [(page.parent / path if path else page, anchor) for path, anchor in found if "://" not in path]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    indexed = {target.resolve() for target, _ in links(INDEX)}
    assert [page for page in DOCS.rglob("*.md") if page != INDEX and page.resolve() not in indexed] == []
    assert INDEX.resolve() in {target.resolve() for target, _ in links(ROOT / "README.md")}


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "reference" / "commands.md"], ids=lambda page: page.name)
def test_every_command_is_listed(page: Path) -> None:
    text = page.read_text()
    for command in COMMANDS:
        assert re.search(rf"^\| `lbdns {command}\b", text, re.MULTILINE), command


def test_every_key_and_policy_is_in_configuration() -> None:
    text = (DOCS / "reference" / "configuration.md").read_text()
    source = "".join(path.read_text() for path in sorted((ROOT / "lbdns" / "config").glob("*.py")))
    reading = r'(?:table|term)\.(?:string|integer|number|flag|one_of|each|strings|required|table)\(\s*"(\w+)"'
    keys = {*re.findall(reading, source), *re.findall(r'\w+\(table, "(\w+)"', source)}
    sections = (section for section in vars(config).values() if is_dataclass(section))
    keys |= {field.name for section in sections for field in fields(section) if "read" in field.metadata}
    assert {"listen", "transfer", "names", "limit", "keep_raw"} <= keys, "the keys of the configuration are found"
    for key in keys:
        assert f"`{key}`" in text, key
    policies = (DOCS / "reference" / "policies.md").read_text()
    for policy in POLICIES:
        assert f"`{policy}`" in text, policy
        assert f"| `{policy}` |" in policies, policy


def test_every_score_is_described() -> None:
    text = (DOCS / "reference" / "scores.md").read_text()
    for score in SCORES:
        assert f"\n## `{score}`\n" in text, score


def test_every_make_target_that_pages_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)", page.read_text()):
            assert target in targets, f"{page.name}: make {target}"
