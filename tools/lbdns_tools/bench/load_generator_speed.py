"""Measures the speed of a single lbdns-load process, and compares lbdns-load with wrk, ab and httperf.

Apache (MPM event) runs on one core, and the load generator on another. The benchmark answers three questions. How many
requests/s does one process send for a 1 kB page, with and without keep-alive? How many requests/s does each generator
achieve, at the same concurrency, for a CGI page that makes the server the bottleneck? How long does the average
connection take at a fixed rate, for the CGI page and for a page that sleeps for 0.2 s? The answers to the second and
third questions must not depend on the generator. Figures for the CGI page are sensitive to other work on the machine.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lbdns_tools.apache_process import PAGES_FOLDER, apache
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import BenchmarkError, need, pin_to_core
from lbdns_tools.load import load_process_pool
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.request_mix import one_url
from lbdns_tools.load.run_statistics import run_statistics

TAKES: Final = "about 3 minutes (--seconds x (6 runs + 7 runs x --repeats))"
EXAMPLE: Final = "--seconds 5 --concurrency 10 --rate 100"
TARGET: Final = 3000.0  # requests/s per core from one process, 1 kB page
AGREEMENT: Final = 0.10  # largest difference between figures that must not depend on the generator
TARGET_TEXT: Final = (
    f"at least {TARGET:.0f} requests/s per core, and figures that differ by at most {100 * AGREEMENT:.0f} % "
    "from those of the other generators"
)
#: Question -> the figure that must not depend on the generator
COMPARED: Final = {"cgi": "requests_per_s", "rate": "mean_ms", "sleep": "mean_ms"}
MIN_RATE_SECONDS: Final = 4.0  # the mean over a shorter time varies too much
_CGI: Final = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nprintf '%1024s' x\n"
_SLEEP: Final = "#!/bin/sh\nsleep 0.2\nprintf 'Content-Type: text/plain\\n\\nslept\\n'\n"


@contextmanager
def server(core: int, load_core: int) -> Iterator[str]:
    """Run Apache with keep-alive on ``core`` and this process on ``load_core``, and yield the base URL of Apache."""
    pin_to_core(core)  # Apache inherits it
    with apache("event", extended_status=False, keep_alive=True) as httpd:
        pin_to_core(load_core)
        (httpd.content / PAGES_FOLDER / "1k.html").write_text("x" * 1024)
        httpd.add_program("page", _CGI)
        httpd.add_program("sleep", _SLEEP)
        yield httpd.base


def ours(url: str, load: ClosedLoop | OpenLoop, keep_alive: bool) -> dict[str, Any]:
    """Run lbdns-load with a single process and return its figures."""
    phases = (LoadPhase(0.0, load, one_url(url)),)
    result = load_process_pool.run(LoadRun(ResolveRule("once"), keep_alive, 5.0, phases=phases), 1)
    found = run_statistics(result.tally, result.seconds, result.saturation)
    share = result.processes[0].cpu_share
    rate = found.requests_per_s or 0.0
    return {
        "requests_per_s": rate,
        "requests_per_s_per_core": rate / share if share else None,
        "mean_ms": 1000 * (found.mean_s or 0.0),
        "failed": result.tally.failed,
        "saturated": result.saturation,
    }


def ab(url: str, concurrency: int, seconds: float, keep_alive: bool) -> dict[str, float]:
    command_line = ["ab", "-q", "-t", f"{seconds:g}", "-n", "10000000", "-c", str(concurrency)]
    return _figures(
        [*command_line, *["-k"] * keep_alive, url],
        requests_per_s=r"Requests per second:\s+([\d.]+)",
        mean_ms=r"Time per request:\s+([\d.]+) \[ms\] \(mean\)",
        failed=r"Failed requests:\s+(\d+)",
    )


def wrk(url: str, concurrency: int, seconds: float, keep_alive: bool) -> dict[str, float]:
    close = [] if keep_alive else ["-H", "Connection: close"]
    command_line = ["wrk", "-t", "1", "-c", str(concurrency), "-d", f"{seconds:g}s", *close, url]
    return _figures(command_line, requests_per_s=r"Requests/sec:\s+([\d.]+)")


def httperf(url: str, rate: float, seconds: float) -> dict[str, float]:
    """Run httperf with one connection per request at a fixed rate, and return its figures.

    As in lbdns-load, the mean time covers the whole lifetime of a connection.
    """
    at = urlsplit(url)
    command_line = ["httperf", "--server", str(at.hostname), "--port", str(at.port), "--uri", at.path, "--hog"]
    command_line += ["--timeout", "5", "--rate", f"{rate:g}", "--num-conns", str(round(rate * seconds))]
    return _figures(
        [*command_line, "--num-calls", "1"],
        requests_per_s=r"Request rate: ([\d.]+)",
        mean_ms=r"Connection time \[ms\]: min [\d.]+ avg ([\d.]+)",
        failed=r"Errors: total (\d+)",
    )


def _figures(program: Sequence[str], **patterns: str) -> dict[str, float]:
    """Run a load generator and return the figures in its output that match ``patterns``. Raises BenchmarkError."""
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise BenchmarkError(f"{program[0]}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    figures = {}
    for name, pattern in patterns.items():
        if not (found := re.search(pattern, done.stdout)):
            raise BenchmarkError(f"{program[0]}: the output contains no match for {pattern}:\n{done.stdout}")
        figures[name] = float(found[1])
    return figures


def difference(ours: float, others: float) -> float:
    """Return the relative difference between two figures. The result is negative if ``ours`` is lower."""
    return ours / others - 1 if others else float("inf")


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    """Run all comparisons described in the module's docstring.

    The generators run in turn, so other work on the machine affects all of them.
    """
    for name, package in (("ab", "apache2-utils"), ("wrk", "wrk"), ("httperf", "httperf")):
        need(name, package)
    seconds, concurrency, rate = options.seconds, options.concurrency, options.rate
    result: dict[str, Any] = {"seconds": seconds, "concurrency": concurrency, "requests_per_s": rate}
    with server(options.server_core, options.load_core) as base:
        page, cgi, sleeping = f"{base}/1k.html", f"{base}/cgi-bin/page", f"{base}/cgi-bin/sleep"
        closed = ClosedLoop(concurrency, seconds=seconds)
        for keep_alive in (False, True):
            result["keep-alive on" if keep_alive else "keep-alive off"] = {
                "lbdns-load": ours(page, closed, keep_alive),
                "ab": ab(page, concurrency, seconds, keep_alive),
                "wrk": wrk(page, concurrency, seconds, keep_alive),
            }
        open_s = max(seconds, MIN_RATE_SECONDS)
        generators: tuple[tuple[str, str, Callable[[], dict[str, Any]]], ...] = (
            ("cgi", "lbdns-load", lambda: ours(cgi, closed, False)),
            ("cgi", "ab", lambda: ab(cgi, concurrency, seconds, False)),
            ("cgi", "wrk", lambda: wrk(cgi, concurrency, seconds, False)),
            ("rate", "lbdns-load", lambda: ours(cgi, OpenLoop((rate,), open_s), False)),
            ("rate", "httperf", lambda: httperf(cgi, rate, open_s)),
            ("sleep", "lbdns-load", lambda: ours(sleeping, OpenLoop((rate / 2,), open_s), False)),
            ("sleep", "httperf", lambda: httperf(sleeping, rate / 2, open_s)),
        )
        found: dict[str, dict[str, list[dict[str, Any]]]] = {what: {} for what in COMPARED}
        for _ in range(options.repeats):
            for what, generator, measure_it in generators:
                found[what].setdefault(generator, []).append(measure_it())
    for what, figure in COMPARED.items():
        result[what] = {generator: {figure: statistics.median(each[figure] for each in runs), "runs": runs}
                        for generator, runs in found[what].items()}  # fmt: skip
    result["differences"] = {
        f"{what}: {figure} against {generator}": difference(
            result[what]["lbdns-load"][figure], result[what][generator][figure]
        )
        for what, figure in COMPARED.items()
        for generator in result[what]
        if generator != "lbdns-load"
    }
    reached = [
        result[way]["lbdns-load"]["requests_per_s_per_core"] or 0.0 for way in ("keep-alive off", "keep-alive on")
    ]
    agree = all(abs(each) <= AGREEMENT for each in result["differences"].values())
    return result | {"met": agree and min(reached) >= TARGET}


def tables(results: command.Results) -> command.Tables:
    rate = results["requests_per_s"]
    questions = {
        "keep-alive off": "1 kB, keep-alive off",
        "keep-alive on": "1 kB, keep-alive on",
        "cgi": "CGI at the server's maximum rate",
        "rate": f"CGI at {rate:g}/s",
        "sleep": f"page that sleeps for 0.2 s, at {rate / 2:g}/s",
    }
    keys = ("requests_per_s", "requests_per_s_per_core", "mean_ms")
    rows = [
        (question, generator, *(f"{found[key]:.2f}" if found.get(key) is not None else "" for key in keys))
        for what, question in questions.items()
        for generator, found in results[what].items()
    ]
    heads = ("question", "generator", "requests/s", "requests per second of CPU time", "mean ms")
    yield command.table(f"{results['concurrency']} clients, {results['seconds']:g} s each", heads, rows)
    rows = [(name, f"{100 * difference:+.1f} %") for name, difference in results["differences"].items()]
    yield command.table("lbdns-load compared with the other generators", ("", "difference"), rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(
        parser, "--seconds", int, 1, 600, 5, "whole seconds per measurement (ab and wrk accept no fractions)"
    )
    command.add_number(parser, "--concurrency", int, 1, 1000, 10, "number of concurrent connections")
    command.add_number(parser, "--rate", float, 1, 10_000, 100, "requests/s in the comparison with httperf")
    command.add_number(parser, "--repeats", int, 1, 50, 3, "number of repetitions; the output shows medians")
    command.add_core_options(parser)
