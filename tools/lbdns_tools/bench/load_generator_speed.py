"""Speed of one process of lbdns-load, and whether wrk, ab and httperf measure the same on the same server.

Apache (event) runs on one core, the load generator on the other. Three questions: how many requests/s of a 1 kB page
one process sends, with and without keep-alive; requests/s of a CGI page at the same concurrency, where the server is
the limit; mean time of a connection at a fixed rate, for that page and for one that sleeps 0.2 s, as in the studies'
rate sweep. The last two must not depend on the generator; the CGI page depends much on the machine's other work.
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

from lbdns_tools.apache_process import PAGES_FOLDER, apache
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.measured_processes import BenchmarkError, need, pin_to_core
from lbdns_tools.load import load_process_pool
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.request_mix import one_url
from lbdns_tools.load.run_statistics import run_statistics

TAKES: Final = "about 3 minutes (seconds x (6 + 7 x repeats))"
EXAMPLE: Final = "--seconds 5 --concurrency 10 --rate 100"
TARGET: Final = 3000.0  # requests/s per core from one process, 1 kB page
AGREEMENT: Final = 0.10  # between figures that must not depend on the generator
TARGET_TEXT: Final = f"at least {TARGET:.0f}/s per core, within {100 * AGREEMENT:.0f} %"
#: Question -> the figure that must not depend on the generator
COMPARED: Final = {"cgi": "requests_per_s", "rate": "mean_ms", "sleep": "mean_ms"}
MIN_RATE_SECONDS: Final = 4.0  # the mean of fewer requests varies too much
_CGI: Final = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nprintf '%1024s' x\n"
_SLEEP: Final = "#!/bin/sh\nsleep 0.2\nprintf 'Content-Type: text/plain\\n\\nslept\\n'\n"


@contextmanager
def server(core: int, load_core: int) -> Iterator[str]:
    """Run an Apache with keep-alive on ``core``, and yield its base URL; this process runs on ``load_core``."""
    pin_to_core(core)  # Apache inherits it
    with apache("event", extended_status=False, keep_alive=True) as httpd:
        pin_to_core(load_core)
        (httpd.content / PAGES_FOLDER / "1k.html").write_text("x" * 1024)
        httpd.add_program("page", _CGI)
        httpd.add_program("sleep", _SLEEP)
        yield httpd.base


def ours(url: str, load: ClosedLoop | OpenLoop, keep_alive: bool) -> dict[str, Any]:
    """Return the figures of one process of lbdns-load."""
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


def ab(url: str, concurrency: int, seconds: float, keep_alive: bool) -> dict[str, Any]:
    text = _output(["ab", "-q", "-t", f"{seconds:g}", "-n", "10000000", "-c", str(concurrency)]
                   + ["-k"] * keep_alive + [url])  # fmt: skip
    return {
        "requests_per_s": _number(r"Requests per second:\s+([\d.]+)", text),
        "mean_ms": _number(r"Time per request:\s+([\d.]+) \[ms\] \(mean\)", text),
        "failed": _number(r"Failed requests:\s+(\d+)", text),
    }


def wrk(url: str, concurrency: int, seconds: float, keep_alive: bool) -> dict[str, Any]:
    close = [] if keep_alive else ["-H", "Connection: close"]
    text = _output(["wrk", "-t", "1", "-c", str(concurrency), "-d", f"{seconds:g}s", *close, url])
    return {"requests_per_s": _number(r"Requests/sec:\s+([\d.]+)", text)}


def httperf(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """One connection per request at a fixed rate; the mean is that of whole connections, as in lbdns-load."""
    host, _, rest = url.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    count = round(rate * seconds)
    text = _output(["httperf", "--server", host, "--port", port, "--uri", f"/{path}", "--hog", "--timeout", "5",
                    "--rate", f"{rate:g}", "--num-conns", str(count), "--num-calls", "1"])  # fmt: skip
    return {
        "requests_per_s": _number(r"Request rate: ([\d.]+)", text),
        "mean_ms": _number(r"Connection time \[ms\]: min [\d.]+ avg ([\d.]+)", text),
        "failed": _number(r"Errors: total (\d+)", text),
    }


def _output(program: Sequence[str]) -> str:
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise BenchmarkError(f"{program[0]}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise BenchmarkError(f"the output has no {pattern}:\n{text}")
    return float(found[1])


def difference(ours: float, others: float) -> float:
    """Return by which share ours is above (or below) the other figure."""
    return ours / others - 1 if others else float("inf")


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    """Answer all three questions. The generators take turns, so that other work on the machine affects all alike."""
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
    result["met"] = _met(result)
    return result


def _met(result: dict[str, Any]) -> bool:
    reached = [result[way]["lbdns-load"]["requests_per_s_per_core"] for way in ("keep-alive off", "keep-alive on")]
    agree = all(abs(each) <= AGREEMENT for each in result["differences"].values())
    return agree and all(rate is not None and rate >= TARGET for rate in reached)


def tables(results: command.Results) -> command.Tables:
    rows: list[tuple[str, str, str]] = []
    for way in ("keep-alive off", "keep-alive on"):
        for generator, each in results[way].items():
            core = each.get("requests_per_s_per_core")
            more = f" ({core:.0f} per second of CPU time)" if core else ""
            rows.append((f"1 kB, {way}", generator, f"{each['requests_per_s']:.0f} requests/s{more}"))
    rows += [("CGI, server at its limit", generator, f"{each['requests_per_s']:.1f} requests/s")
             for generator, each in results["cgi"].items()]  # fmt: skip
    rate = results["requests_per_s"]
    for what, title in (("rate", f"CGI at {rate:g}/s"), ("sleep", f"0.2 s of sleep at {rate / 2:g}/s")):
        rows += [(title, generator, f"mean {each['mean_ms']:.3f} ms") for generator, each in results[what].items()]
    rows += [(name, "", f"{100 * each:+.1f} %") for name, each in results["differences"].items()]
    title = f"{results['concurrency']} clients, {results['seconds']:g} s each"
    return [command.table(title, ("question", "generator", "figure"), rows)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", int, 1, 600, 5, "seconds of each measurement; ab and wrk need whole ones")
    command.add_number(parser, "--concurrency", int, 1, 1000, 10, "connections at a time")
    command.add_number(parser, "--rate", float, 1, 10_000, 100, "requests/s in the comparison with httperf")
    command.add_number(parser, "--repeats", int, 1, 50, 3, "repetitions of each comparison; the report shows medians")
    command.add_core_options(parser)
