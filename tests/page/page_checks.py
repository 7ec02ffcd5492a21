"""Checks that a page is accessible and fits the screen: contrast, names for screen readers, and overflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tests.browser import PATIENCE, BrowserPage

T = TypeVar("T")
_POLL_INTERVAL: Final = 0.1  # seconds

#: Script: texts with too little contrast to their background (WCAG 2.1, 1.4.3: 4.5, for large text 3)
_FAINT: Final = """(() => {
  const luminance = parts => {
    const [r, g, b] = parts.slice(0, 3).map(part => part / 255).map(part => part <= 0.03928 ? part / 12.92
      : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parts = colour => (colour.match(/[\\d.]+/g) ?? []).map(Number)
    .map((part, i) => colour.startsWith('color(srgb') && i < 3 ? 255 * part : part);
  const background = element => {
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
    const [a, b] = [luminance(parts(style.color)), luminance(background(element))].sort((x, y) => y - x);
    const needed = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < needed) faint.add(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return [...faint];
})()"""
#: Roles of controls, each of which needs a name that a screen reader can read out
_CONTROLS: Final = ("button", "combobox", "checkbox", "radio", "searchbox", "textbox", "link")
#: Roles of other elements that need such a name
_NAMED: Final = ("table", "img", "image", "figure", "region", "navigation")


async def read_until(read: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
    """Read a value repeatedly, and return it once ``is_right(value)`` is true, or after PATIENCE seconds at the latest.

    Use this function for a value that is read in several steps, because the page may change between the steps.
    """
    start = time.monotonic()
    while True:
        value = await read()
        if is_right(value) or time.monotonic() - start > PATIENCE:
            return value
        await asyncio.sleep(_POLL_INTERVAL)


async def faint_texts(page: BrowserPage) -> list[str]:
    """Return the texts that contrast too little with their background, and their contrast ratios."""
    found: list[str] = await page.run(_FAINT)
    return found


async def unnamed_elements(page: BrowserPage) -> list[str]:
    """Return the controls, tables, images and regions that have no name for screen readers."""
    await page.call("Accessibility.enable")
    nodes = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    roles = {node["role"]["value"] for node in nodes if not node.get("ignored")}
    assert {"button", "combobox", "table", "cell", "columnheader", "rowheader", "radio", "link"} <= roles, roles
    return [
        f"{node['role']['value']} {node.get('backendDOMNodeId')}"
        for node in nodes
        if not node.get("ignored")
        and node["role"]["value"] in (*_CONTROLS, *_NAMED)
        and not node.get("name", {}).get("value", "").strip()
    ]


async def overflow(page: BrowserPage) -> int:
    """Return the number of CSS pixels by which the page is wider than the screen."""
    found: int = await page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


def cells_script(member: str) -> str:
    """Return a script that reads the texts in a member's row, keyed by column title."""
    return (
        f"Object.fromEntries([...[...document.querySelectorAll('.members tbody tr')].find(row => "
        f"row.querySelector('.opener')?.textContent === '{member}').querySelectorAll('td')]"
        ".map(cell => [cell.dataset.title, cell.innerText.replace(/\\s+/g, ' ').trim()]))"
    )
