"""Measures, in a real browser, the time from a click on a time range until the plots of a large pool are drawn.

The benchmark records a history of synthetic members, starts lbdns with this history and with agents for all members,
and opens the live page in Chromium. In each round, the benchmark loads the page again and selects the range of one
hour. The measurement ends with the first frame in which every visible plot shows the whole range. The figure 'server'
is the time from the first request for history until the page has all responses; the figure 'drawing' is the remaining
time until the plots are drawn. The page requests history only for visible plots.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.live_history import COMMIT_EVERY
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BenchmarkFarm, address_records, pool_table
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_lbdns
from lbdns_tools.bench.headless_browser import MeasuredPage, browsing
from lbdns_tools.bench.history_size import BEGIN, samples
from lbdns_tools.bench.page_reader_cost import page_readers_part
from lbdns_tools.free_ports import free_port

TAKES: Final = "about 5 minutes, mostly spent recording the history"
EXAMPLE: Final = "--members 200 --minutes 20"
TARGETS: Final = {200: 1.0, 1000: 2.0}  # seconds, by the number of members
TARGET_TEXT: Final = "plots drawn within 1 s of the click with up to 200 members, and within 2 s with more"
POOL: Final = "pool0"  # as in ``samples``
SPAN: Final = 3600  # seconds: the time range that the benchmark selects
COVERED: Final = 0.9  # of the recorded span: the newest seconds may not have been written yet
WIDTH, HEIGHT = 1400, 1200  # CSS pixels
OPEN: Final = 60.0  # seconds until the page shows the plots
LIMIT: Final = 60  # seconds after which the benchmark stops waiting for the picture

_SCROLL: Final = "document.querySelector('#plots')?.scrollIntoView({ behavior: 'instant' })"
#: Script, run before those of the page: keeps a list of all plots that the page creates
_WATCH_PLOTS: Final = """(() => {
  window.createdPlots = [];
  let real;
  Object.defineProperty(window, 'uPlot', { get: () => real, set(value) {
    real = new Proxy(value, { construct(target, options) {
      const plot = new target(...options);
      createdPlots.push(plot);
      return plot;
    } });
  } });
})()"""
#: Script: the plots on the screen
_VISIBLE: Final = """createdPlots.filter(({ root }) => root.isConnected
  && root.getBoundingClientRect().top < innerHeight && root.getBoundingClientRect().bottom > 0)"""
#: Script: selects a range, and returns milliseconds and the number of requests and bytes
_SELECT: Final = """(async (span, recorded) => {
  const frame = () => new Promise(requestAnimationFrame);
  performance.clearResourceTimings();
  const begin = Date.now() / 1000 - recorded;
  const clicked = performance.now();
  document.querySelector(`input[name=span][value="${span}"]`).click();
  const isDrawn = ({ data: [times, ...series] }) => times[0] <= begin
    && series.some(values => values.some(Number.isFinite));
  for (;;) {
    await frame();
    const plots = VISIBLE;
    if (plots.length && plots.every(isDrawn) || performance.now() - clicked > LIMIT) break;
  }
  const drawn = performance.now();
  await new Promise(done => setTimeout(done, 50));  // the browser records a response shortly after delivering it
  const all = performance.getEntriesByType('resource')  // a request that began before the click may still be recorded
    .filter(({ name, startTime }) => /history|plots[?]/.test(name) && startTime >= clicked);
  const found = all.filter(({ responseEnd }) => responseEnd && responseEnd <= drawn);
  const [first, last] = [Math.min(...found.map(one => one.startTime)), Math.max(...found.map(one => one.responseEnd))];
  return JSON.stringify({
    total_ms: drawn - clicked, server_ms: last - first, drawing_ms: drawn - last, requests: found.length,
    kilobytes: found.reduce((sum, one) => sum + one.encodedBodySize, 0) / 1000, plots: VISIBLE.length,
  });
})(SPAN, RECORDED)""".replace("VISIBLE", _VISIBLE).replace("LIMIT", str(1000 * LIMIT))


def plot_farm(folder: Path, members: int) -> tuple[BenchmarkFarm, int, list[str]]:
    """Return three values: a farm with a large pool, the farm's HTTP port, and the names of the pool's members."""
    folder.mkdir()
    farm, port = BenchmarkFarm(folder), free_port()
    names = [f"web{number}" for number in range(members)]
    zone = folder / "hobbit.zone"
    zone.write_text(zone.read_text() + address_records(names))
    config = farm.config.read_text().replace('[web]\nlisten = "off"', f'[web]\nlisten = "127.0.0.1:{port}"')
    farm.config.write_text(config + pool_table(POOL, "hobbit", names, f'"best.{POOL}" = "best"'))
    return farm, port, names


def record_until_now(path: Path, members: int, seconds: int) -> None:
    """Record a history that covers the last ``seconds``."""
    path.parent.mkdir(exist_ok=True)
    recorder, found = HistoryRecorder(path, HistoryConfig()), samples(1, members, seconds)
    begin = time.time() - seconds
    for number, sample in enumerate(found, 1):
        recorder.add_sample(replace(sample, time=sample.time - BEGIN + begin))
        if number % (60 * COMMIT_EVERY) == 0:
            recorder.commit()
    recorder.finish()


class PlotRounds:
    """Measures how fast a browser displays the plots of one farm."""

    def __init__(self, page: MeasuredPage, server: MeasuredServer, url: str, recorded: float) -> None:
        self._page, self._server, self._url, self._recorded = page, server, url, recorded

    async def measure(self) -> dict[str, float]:
        """Load the page, select the range, and return the figures for one click."""
        page = self._page
        await page.call("Page.navigate", url="about:blank")
        await page.call("Page.navigate", url=self._url)
        await page.until(f"({_SCROLL}, document.querySelector('.plot canvas'))", OPEN)
        has_values = "data.slice(1).some(values => values.some(Number.isFinite))"
        await page.until(f"(plots => plots.length && plots.every(({{ data }}) => {has_values}))({_VISIBLE})", OPEN)
        cpu, script = self._server.process.cpu_seconds(), await page.script_seconds()
        recorded = str(COVERED * min(SPAN, self._recorded))
        figures: dict[str, Any] = json.loads(
            await page.run(_SELECT.replace("SPAN", str(SPAN)).replace("RECORDED", recorded))
        )
        figures["server_cpu_ms"] = 1000 * (self._server.process.cpu_seconds() - cpu)
        figures["script_ms"] = 1000 * (await page.script_seconds() - script)
        return figures


async def measure_farm(folder: Path, members: int, options: argparse.Namespace) -> command.Results:
    farm, port, names = plot_farm(folder, members)
    seconds = round(60 * options.minutes)
    command.progress(f"recording {options.minutes:g} minutes of history for {members} members")
    record_until_now(folder / "state" / "history.db", members, seconds)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving_lbdns(farm, options.server_core))
        hosts = folder / "hosts"
        hosts.write_text("\n".join(names))
        reports = {"port": farm.report_port, "key_file": folder / "report.key", "hosts": hosts}
        stack.enter_context(page_readers_part("agents", folder, options.load_core, **reports))
        async with browsing(folder, options.load_core, WIDTH, HEIGHT) as page:
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH_PLOTS)
            url = f"http://127.0.0.1:{port}/#tab={POOL}&plots={POOL}"
            rounds = PlotRounds(page, server, url, seconds)
            found = [await rounds.measure() for _ in command.rounds(options.rounds)]
    return {name: round(figure, 1) for name, figure in command.medians(found).items()} | {
        "longest_ms": round(max(one["total_ms"] for one in found))
    }


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    farms = {
        f"{members} members": asyncio.run(measure_farm(folder / str(members), members, options))
        for members in options.members
    }
    met = all(
        farms[f"{members} members"]["total_ms"] <= 1000 * TARGETS[200 if members <= 200 else 1000]
        for members in options.members
    )
    return {"farms": farms, "met": met}


def tables(results: command.Results) -> command.Tables:
    return [command.side_by_side("from the click to the drawn plots (median of all rounds)", results["farms"])]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--members", nargs="+", type=int, default=[200, 1000], metavar="N",
        help="pool sizes to measure, in members (default: 200 1000)",
    )  # fmt: skip
    command.add_number(parser, "--minutes", float, 1, 1440, 60, "minutes of recorded history")
    command.add_number(parser, "--rounds", int, 1, 50, 5, "number of rounds")
    command.add_core_options(parser)
