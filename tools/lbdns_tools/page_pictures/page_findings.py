"""Finds what is wrong with the page in the browser: overflow, texts outside their panels, errors and axe-core's
violations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.headless_browser import MeasuredPage

#: The copy of axe-core in a checkout of the repository
AXE_FILE: Final = Path(__file__).parents[3] / "tests" / "page" / "vendor" / "axe.min.js"
#: Script: the number of CSS pixels by which the page is wider than the screen
OVERFLOW: Final = "document.documentElement.scrollWidth - innerWidth"
#: Script: the texts that extend beyond their panel; texts that scroll or are hidden are left out
SPILLED_TEXTS: Final = """(() => {
  const found = new Set();
  for (const panel of document.querySelectorAll('.panel, header')) {
    const { left, right } = panel.getBoundingClientRect();
    const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || element.closest('.unseen, thead, .tip')) continue;
      const box = element.closest('.scroll');
      if (!element.checkVisibility() || box?.scrollWidth > box?.clientWidth) continue;
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      if (getComputedStyle(element).textOverflow === 'ellipsis') continue;
      for (const line of range.getClientRects()) {
        if (line.right > right + 0.5 || line.left < left - 0.5) found.add(walker.currentNode.data.trim());
      }
    }
  }
  return [...found];
})()"""
#: Script: the names of at most ten characters that the member table cuts off; members may then look alike
CUT_NAMES: Final = """[...document.querySelectorAll('.members .opener')]
  .filter(name => name.textContent.length <= 10 && name.scrollWidth > name.clientWidth).map(name => name.textContent)"""
#: Script: what axe-core finds, as JSON: the rule, the number of elements, and the first of them
_VIOLATIONS: Final = """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(
  violations.map(({ id, nodes }) => [id, nodes.length, nodes[0].html.slice(0, 120)])))"""


def read_axe(file: Path | None) -> str:
    """Return the script in ``file``, by default in AXE_FILE. Raises LbdnsError."""
    try:
        return (file or AXE_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LbdnsError(
            f"--axe {file or AXE_FILE}: {reason}; name a file with axe-core's axe.min.js, or run this command from a "
            "checkout of lbdns"
        ) from None


async def find_faults(page: MeasuredPage, axe: str) -> list[str]:
    """Return a line for each fault of the page as the screen shows it. ``axe`` is axe-core's script.

    The faults include the errors that the browser has reported since the previous call. Raises BenchmarkError.
    """
    faults = []
    if (overflow := int(await page.run(OVERFLOW))) > 0:
        faults.append(f"the page is {overflow} px wider than the screen")
    faults += [f"a text leaves its panel: {text[:120]}" for text in await page.run(SPILLED_TEXTS)]
    faults += [f"the name of a member is cut off: {name}" for name in await page.run(CUT_NAMES)]
    await page.run(f"(() => {{ {axe} }})(); true")
    for rule, count, first in json.loads(await page.run(_VIOLATIONS)):
        faults.append(f"axe-core: {rule}, {count} elements, the first is {first}")
    faults += [f"error: {text}" for text in page.errors]
    page.errors.clear()
    return faults
