"""Scripts that look at a page as a person with other eyes, other hands or another screen would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tests.browser import PATIENCE, Page

T = TypeVar("T")
_STEP: Final = 0.1  # seconds between looks

#: Texts whose contrast with their ground is too low (WCAG 2.1, 1.4.3: 4.5, or 3 where they are large)
_FAINT: Final = """(() => {
  const luminance = parts => {
    const [r, g, b] = parts.slice(0, 3).map(part => part / 255).map(part => part <= 0.03928 ? part / 12.92
      : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parts = colour => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('.unseen, :disabled')) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parts(style.color)), luminance(ground(element))].sort((x, y) => y - x);
    const needed = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < needed) faint.add(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return [...faint];
})()"""
#: Roles of what can be worked with; each needs a name that a screen reader can say
_CONTROLS: Final = ("button", "combobox", "checkbox", "radio", "searchbox", "textbox", "link")
_NAMED: Final = ("table", "img", "image", "figure", "region", "navigation")


async def seen(look: Callable[[], Awaitable[T]], right: Callable[[T], bool]) -> T:
    """What ``look`` finds once that is right; what it found last if it never is, for the test to judge. For what is
    looked at in several steps: the page goes on between them, on a busy machine by seconds."""
    began = time.monotonic()
    while True:
        found = await look()
        if right(found) or time.monotonic() - began > PATIENCE:
            return found
        await asyncio.sleep(_STEP)


async def faint_texts(page: Page) -> list[str]:
    """Texts that are hard to read on their ground, with the contrast they have."""
    found: list[str] = await page.run(_FAINT)
    return found


async def nameless(page: Page) -> list[str]:
    """What a screen reader would call by its role alone: controls, tables, pictures and regions without a name."""
    await page.call("Accessibility.enable")
    nodes = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    seen = {node["role"]["value"] for node in nodes if not node.get("ignored")}
    assert {"button", "combobox", "table", "cell", "columnheader", "rowheader", "radio", "link"} <= seen, seen
    return [
        f"{node['role']['value']} {node.get('backendDOMNodeId')}"
        for node in nodes
        if not node.get("ignored")
        and node["role"]["value"] in (*_CONTROLS, *_NAMED)
        and not node.get("name", {}).get("value", "").strip()
    ]


async def overflow(page: Page) -> int:
    """CSS pixels by which the page is wider than the screen."""
    found: int = await page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


def by_title(row: str) -> str:
    """A script that gives the cells of a member's row by the title of their column."""
    return (
        f"Object.fromEntries([...[...document.querySelectorAll('.members tbody tr')].find(row => "
        f"row.querySelector('.opener')?.textContent === '{row}').querySelectorAll('td')]"
        ".map(cell => [cell.dataset.title, cell.innerText.replace(/\\s+/g, ' ').trim()]))"
    )
