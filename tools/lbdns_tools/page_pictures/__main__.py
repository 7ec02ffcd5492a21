"""``python -m lbdns_tools.page_pictures``: takes screenshots of the live page, one for each state, number of members,
width and colour scheme, and lists what is wrong with the page: overflow, errors, and violations that axe-core finds."""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.headless_browser import MeasuredPage, browsing
from lbdns_tools.page_pictures.page_findings import find_faults, read_axe
from lbdns_tools.page_pictures.pictured_farm import STATES, running_farm

PROGRAM: Final = "python -m lbdns_tools.page_pictures"
EXAMPLE: Final = f"example: {PROGRAM} --state dead --members 3 30 --width 390 1400 --scheme light --out pictures"
MEMBERS: Final = (3, 30, 200, 1000)
MAX_MEMBERS: Final = 5000
WIDTHS: Final = (320, 390, 820, 1400, 1920)  # CSS pixels
SCHEMES: Final = ("light", "dark")
HEIGHT: Final = 900  # CSS pixels of the screen
LONGEST: Final = 4000  # CSS pixels of a screenshot; on a phone, 50 members are longer
ROWS: Final = 50  # members that the page shows at once
SETTLE_S: Final = 20.0  # s from a state to its first screenshot, so that the page's averages and lines have values
UPDATES_S: Final = 2.0  # s: two updates, from which the page calculates rates
SHOWN_S: Final = 180.0  # s that the page may take to show all members on a busy machine
#: Script: the page has the events, from which it knows whether there were problems earlier
_HAS_EVENTS: Final = "document.querySelector('.events li') !== null"
#: Script: the plots on the screen have been drawn, with the values from the history
_DRAWN: Final = (
    "[...document.querySelectorAll('.chart')].every(chart => chart.getBoundingClientRect().top > innerHeight"
    " || chart.querySelector('canvas') && !chart.querySelector('.loading:not([hidden])'))"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A screenshot of the page in one state. ``width`` is in CSS pixels."""

    state: str
    members: int
    width: int
    scheme: str

    @property
    def file_name(self) -> str:
        return f"{self.state}-{self.members}-{self.width}-{self.scheme}.png"


@dataclass(frozen=True, slots=True)
class Taken:
    """A screenshot that was taken. ``shown_s`` is the time from the request for the page to its first complete picture,
    in seconds, and ``faults`` are lines that say what is wrong with the page."""

    picture: Picture
    shown_s: float
    faults: Sequence[str]


async def take(page: MeasuredPage, url: str, picture: Picture) -> tuple[bytes, float]:
    """Load the page, and return a PNG image of it, from the top to the height LONGEST, and the seconds until its first
    screen was complete. Raises BenchmarkError."""
    await page.call("Emulation.setScrollbarsHidden", hidden=True)
    scheme = {"name": "prefers-color-scheme", "value": picture.scheme}
    motion = {"name": "prefers-reduced-motion", "value": "reduce"}
    await page.call("Emulation.setEmulatedMedia", features=[scheme, motion])
    await resize(page, picture.width, HEIGHT)
    await page.call("Page.navigate", url="about:blank")
    await page.call("Page.navigate", url=url)
    rows = min(picture.members, ROWS)
    has_rows = f"document.querySelectorAll('.members tbody tr').length >= {rows}"
    await page.until(f"{has_rows} && {_HAS_EVENTS} && {_DRAWN}", SHOWN_S)
    shown_s = await page.run("performance.now()") / 1000
    await fit_screen(page, picture.width)
    return base64.b64decode((await page.call("Page.captureScreenshot", format="png"))["data"]), shown_s


async def fit_screen(page: MeasuredPage, width: int) -> None:
    """Make the screen as high as the page, because the page draws only visible plots, and wait until the page stops
    growing."""
    height = -1
    while height != (grown := min(LONGEST, int(await page.run("document.documentElement.scrollHeight")))):
        height = grown
        await resize(page, width, height)
        await page.until(_DRAWN, SHOWN_S)
        await asyncio.sleep(UPDATES_S)


async def resize(page: MeasuredPage, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await page.call("Emulation.setDeviceMetricsOverride", **size)


async def take_pictures(folder: Path, pictures: Sequence[Picture], settle: float, out: Path, axe: str) -> list[Taken]:
    """Run a farm, take ``pictures`` of its page, write them to ``out``, and return what was found. All pictures must
    have the same state and number of members. ``axe`` is axe-core's script. Raises LbdnsError."""
    taken = []
    state, members = pictures[0].state, pictures[0].members
    with running_farm(folder, members) as farm:
        farm.enter(state)
        await asyncio.sleep(settle)
        async with browsing(folder, None, pictures[0].width, HEIGHT) as page:
            for picture in pictures:
                image, shown_s = await take(page, farm.url, picture)
                (out / picture.file_name).write_bytes(image)
                taken.append(Taken(picture, shown_s, await find_faults(page, axe)))
                print(describe(out, taken[-1]), flush=True)
    return taken


def describe(out: Path, taken: Taken) -> str:
    """Return the line for a screenshot in the folder ``out``."""
    faults = f"{len(taken.faults)} faults" if taken.faults else "no fault"
    return f"{out / taken.picture.file_name}: complete after {taken.shown_s:.2f} s, {faults}"


def summarize(taken: Sequence[Taken]) -> Iterator[str]:
    """Yield lines: each fault, with the number of screenshots in which it occurs and the first of them; and totals."""
    found: dict[str, list[Picture]] = {}
    for one in taken:
        for fault in one.faults:
            found.setdefault(fault, []).append(one.picture)
    for fault, pictures in sorted(found.items(), key=lambda item: -len(item[1])):
        yield f"{len(pictures):4} x {fault} (first in {pictures[0].file_name})"
    times = sorted(one.shown_s for one in taken)
    yield (
        f"{len(taken)} screenshots, {len(found)} different faults; the page was complete after {median(times):.2f} s "
        f"(median), {times[-1]:.2f} s (longest)"
    )


def member_count(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MAX_MEMBERS:
        raise argparse.ArgumentTypeError(f"must be a number of members from 1 to {MAX_MEMBERS}, not {text!r}")
    return count


def picture_width(text: str) -> int:
    width = int(text) if text.isdecimal() else 0
    if not 200 <= width <= 8000:
        raise argparse.ArgumentTypeError(f"must be a width from 200 to 8000 CSS pixels, not {text!r}")
    return width


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0 to 3600, not {text!r}")
    return found


def make_parser() -> argparse.ArgumentParser:
    states = "\n".join(f"  {name:<14}{text}" for name, text in STATES.items())
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=f"{__doc__}\n\nA real server with simulated agents serves the page. The states are:\n{states}",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--state", nargs="+", choices=STATES, default=list(STATES), help="(default: all)")
    parser.add_argument("--members", nargs="+", type=member_count, default=list(MEMBERS), metavar="N",
                        help=f"numbers of members (default: {' '.join(map(str, MEMBERS))})")  # fmt: skip
    parser.add_argument("--width", nargs="+", type=picture_width, default=list(WIDTHS), metavar="PIXELS",
                        help=f"widths of the screen in CSS pixels (default: {' '.join(map(str, WIDTHS))})")  # fmt: skip
    parser.add_argument("--scheme", nargs="+", choices=SCHEMES, default=list(SCHEMES), help="(default: both)")
    parser.add_argument("--settle", type=seconds, default=SETTLE_S, metavar="S",
                        help=f"seconds to wait before a state's first screenshot (default: {SETTLE_S:g})")  # fmt: skip
    parser.add_argument("--axe", type=Path, metavar="FILE",
                        help="axe-core's axe.min.js (default: the checkout's copy in tests/page)")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory for the PNG files")
    return parser


def take_all(options: argparse.Namespace) -> list[Taken]:
    """Take the screenshots that ``options`` select, one after another. Raises LbdnsError and OSError."""
    axe, taken = read_axe(options.axe), []
    options.out.mkdir(parents=True, exist_ok=True)
    for state in options.state:
        for members in options.members:
            pictures = [Picture(state, members, width, scheme) for width in options.width for scheme in options.scheme]
            with tempfile.TemporaryDirectory(prefix="lbdns-pictures-", ignore_cleanup_errors=True) as folder:
                taken += asyncio.run(take_pictures(Path(folder), pictures, options.settle, options.out, axe))
    return taken


def main(arguments: Sequence[str]) -> int:
    """Take the screenshots, list the faults, and return the exit status: 1 if there are faults."""
    options = make_parser().parse_args(arguments)
    try:
        taken = take_all(options)
        print(*summarize(taken), sep="\n")
        return int(any(one.faults for one in taken))
    except OSError as error:
        print(f"{PROGRAM}: --out {options.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    except LbdnsError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
