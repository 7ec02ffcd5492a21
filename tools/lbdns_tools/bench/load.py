"""What one process of the load generator reaches, and whether wrk, ab and httperf find the same of the same server.

Apache (event) on one core, whoever loads it on the other. Three questions: how many requests/s of a 1 kB page one
process sends, with keep-alive off and on; requests/s of a CGI page at the same concurrency, where the server is the
limit; mean time of a connection at a fixed rate, of that page and of one that sleeps 0.2 s, as in the studies'
rate sweep. The last two mean the same whoever measures them; the CGI page depends much on what else the machine does.

``python -m lbdns_tools.bench.load [--seconds 5] [--concurrency 10] [--rate 100] [--json] [--fail]``
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from lbdns_tools.apache import PAGES_FOLDER, apache
from lbdns_tools.load import crew
from lbdns_tools.load.figures import figures
from lbdns_tools.load.mix import one_url
from lbdns_tools.load.plan import Closed, Open, Phase, Resolve, Run

TARGET: Final = 3000.0  # requests/s per core from one process, 1 kB page
AGREEMENT: Final = 0.10  # between figures that mean the same
#: Question -> the figure that means the same whoever measures it
COMPARED: Final = {"cgi": "requests_per_s", "rate": "mean_ms", "sleep": "mean_ms"}
MIN_RATE_SECONDS: Final = 4.0  # a mean of fewer requests is a matter of chance
_CGI: Final = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nprintf '%1024s' x\n"
_SLEEP: Final = "#!/bin/sh\nsleep 0.2\nprintf 'Content-Type: text/plain\\n\\nslept\\n'\n"


@contextmanager
def server(core: int, load_core: int) -> Iterator[str]:
    """The base URL of an Apache on ``core`` that keeps connections; this process is on ``load_core`` meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        with apache("event", extended_status=False, keep_alive=True) as httpd:
            os.sched_setaffinity(0, {load_core})
            (httpd.content / PAGES_FOLDER / "1k.html").write_text("x" * 1024)
            httpd.add_program("page", _CGI)
            httpd.add_program("sleep", _SLEEP)
            yield httpd.base
    finally:
        os.sched_setaffinity(0, before)


def ours(url: str, load: Closed | Open, keep_alive: bool) -> dict[str, Any]:
    """One process of lbdns-load."""
    phases = (Phase(0.0, load, one_url(url)),)
    result = crew.run(Run("bench", phases, Resolve("once"), keep_alive, 5.0, 0.0, 0, 1), 1)
    found = figures(result.tally, result.seconds, result.saturation)
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
    """A connection a request at a fixed rate; its mean is of whole connections, as ours."""
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


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"{pattern} is not in the output:\n{text}")
    return float(found[1])


def difference(ours: float, others: float) -> float:
    """By which part ours is above (or below) the other's."""
    return ours / others - 1 if others else float("inf")


def run(
    seconds: float, concurrency: int, rate: float, repeats: int, server_core: int, load_core: int
) -> dict[str, Any]:
    """All three questions; who is to be compared takes turns, so that a machine's other work hits everybody."""
    for name in ("ab", "wrk", "httperf"):
        if shutil.which(name) is None:
            raise FileNotFoundError(f"{name}: on Debian it is in apache2-utils, wrk, httperf")
    result: dict[str, Any] = {"seconds": seconds, "concurrency": concurrency, "requests_per_s": rate}
    with server(server_core, load_core) as base:
        page, cgi, sleeping = f"{base}/1k.html", f"{base}/cgi-bin/page", f"{base}/cgi-bin/sleep"
        closed = Closed(concurrency, seconds=seconds)
        for keep_alive in (False, True):
            result["keep-alive on" if keep_alive else "keep-alive off"] = {
                "lbdns-load": ours(page, closed, keep_alive),
                "ab": ab(page, concurrency, seconds, keep_alive),
                "wrk": wrk(page, concurrency, seconds, keep_alive),
            }
        open_s = max(seconds, MIN_RATE_SECONDS)
        everybody: tuple[tuple[str, str, Callable[[], dict[str, Any]]], ...] = (
            ("cgi", "lbdns-load", lambda: ours(cgi, closed, False)),
            ("cgi", "ab", lambda: ab(cgi, concurrency, seconds, False)),
            ("cgi", "wrk", lambda: wrk(cgi, concurrency, seconds, False)),
            ("rate", "lbdns-load", lambda: ours(cgi, Open((rate,), open_s), False)),
            ("rate", "httperf", lambda: httperf(cgi, rate, open_s)),
            ("sleep", "lbdns-load", lambda: ours(sleeping, Open((rate / 2,), open_s), False)),
            ("sleep", "httperf", lambda: httperf(sleeping, rate / 2, open_s)),
        )
        found: dict[str, dict[str, list[dict[str, Any]]]] = {what: {} for what in COMPARED}
        for _ in range(repeats):
            for what, who, measure in everybody:
                found[what].setdefault(who, []).append(measure())
    for what, figure in COMPARED.items():
        result[what] = {who: {figure: statistics.median(each[figure] for each in runs), "runs": runs}
                        for who, runs in found[what].items()}  # fmt: skip
    result["differences"] = {
        f"{what}: {figure} against {who}": difference(result[what]["lbdns-load"][figure], result[what][who][figure])
        for what, figure in COMPARED.items()
        for who in result[what]
        if who != "lbdns-load"
    }
    result["met"] = _met(result)
    return result


def _met(result: dict[str, Any]) -> bool:
    reached = [result[way]["lbdns-load"]["requests_per_s_per_core"] for way in ("keep-alive off", "keep-alive on")]
    agree = all(abs(each) <= AGREEMENT for each in result["differences"].values())
    return agree and all(rate is not None and rate >= TARGET for rate in reached)


def _table(result: dict[str, Any]) -> str:
    lines = [f"Apache on one core, the load on another, {result['concurrency']} clients, {result['seconds']:g} s each"]
    for way in ("keep-alive off", "keep-alive on"):
        for who, each in result[way].items():
            core = each.get("requests_per_s_per_core")
            more = f", {core:.0f} a core's time would do" if core else ""
            lines.append(f"1 kB, {way:<15} {who:<11} {each['requests_per_s']:9.0f} requests/s{more}")
    for who, each in result["cgi"].items():
        lines.append(f"CGI, the server's limit {who:<11} {each['requests_per_s']:9.1f} requests/s")
    for who, each in result["rate"].items():
        lines.append(f"CGI at {result['requests_per_s']:g}/s          {who:<11} {each['mean_ms']:9.3f} ms in the mean")
    for who, each in result["sleep"].items():
        lines.append(
            f"0.2 s asleep at {result['requests_per_s'] / 2:g}/s {who:<11} {each['mean_ms']:9.3f} ms in the mean"
        )
    lines += [f"{name}: {100 * each:+.1f} %" for name, each in result["differences"].items()]
    lines.append(f"target (at least {TARGET:.0f}/s a core, within {100 * AGREEMENT:.0f} %) "
                 f"{'met' if result['met'] else 'MISSED'}")  # fmt: skip
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; exit status 1 with --fail when the target is missed."""
    parser = argparse.ArgumentParser(prog="load", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (5)")
    parser.add_argument("--concurrency", type=int, default=10, help="connections at a time (10)")
    parser.add_argument("--rate", type=float, default=100.0, help="requests/s beside httperf (100)")
    parser.add_argument("--repeats", type=int, default=3, help="of what is compared; medians are (3)")
    parser.add_argument("--server-core", type=int, default=0, help="that Apache runs on (0)")
    parser.add_argument("--load-core", type=int, default=1, help="that everything else runs on (1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--fail", action="store_true", help="exit status 1 when the target is missed")
    options = parser.parse_args(argv)
    try:
        result = run(
            options.seconds, options.concurrency, options.rate, options.repeats, options.server_core, options.load_core
        )
    except (FileNotFoundError, RuntimeError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, indent=2) if options.json else _table(result))
    return 1 if options.fail and not result["met"] else 0


if __name__ == "__main__":
    sys.exit(main())
