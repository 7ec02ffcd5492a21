"""``python -m lbdns_tools.bench``: runs one benchmark, lists all benchmarks, or runs a short form of each benchmark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Final, cast

from lbdns.text.suggestions import nearest
from lbdns_tools.bench import all_benchmarks
from lbdns_tools.bench.benchmark_command import BenchmarkModule, run_benchmark
from lbdns_tools.bench.benchmark_table import BENCHMARKS

PROGRAM: Final = "python -m lbdns_tools.bench"
USAGE: Final = f"""usage: {PROGRAM} NAME [options]    run one benchmark; NAME --help lists its options
       {PROGRAM} list              list the benchmarks
       {PROGRAM} all [options]     run a short form of each benchmark and compare the results with the recorded figures

example: {PROGRAM} dns.peers --rounds 7 --peers nsd
"""


def listing() -> str:
    """Return one line per benchmark, with its name and its description."""
    width = max(map(len, BENCHMARKS)) + 2
    return "".join(f"{name:<{width}}{benchmark.help}\n" for name, benchmark in BENCHMARKS.items())


def main(arguments: Sequence[str]) -> int:
    """Run a benchmark, or the command ``list`` or ``all``. Return the exit status, which is 2 if the arguments are
    invalid."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", ())
    if name in ("-h", "--help"):
        print(f"{USAGE}\nbenchmarks:\n{listing()}", end="")
        return 0
    if name == "list":
        print(listing(), end="")
        return 0
    if name == "all":
        return all_benchmarks.main(f"{PROGRAM} all", rest)
    if name not in BENCHMARKS:
        print(f"{USAGE}\n{PROGRAM}: there is no benchmark named {name!r}{nearest(name, BENCHMARKS)}", file=sys.stderr)
        return 2
    module = cast(BenchmarkModule, importlib.import_module(BENCHMARKS[name].module))
    return run_benchmark(f"{PROGRAM} {name}", module, rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
