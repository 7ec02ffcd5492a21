"""``python -m lbdns_tools.fuzz``: searches for inputs that make a target fail, replays inputs, or shrinks one input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lbdns_tools.fuzz.fuzz_targets import TARGETS, load_target, run_target, shrink_input

EPILOG = """examples:
  python -m lbdns_tools.fuzz zonefile --seconds 1800 --corpus ~/fuzz/zonefile
  python -m lbdns_tools.fuzz zonefile --shrink found/found-0123456789ab   (shrinks the file in place)
  python -m lbdns_tools.fuzz zonefile --replay found/found-0123456789ab   (shows the traceback)"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lbdns_tools.fuzz", description="Search for inputs that make a target fail.", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument(
        "--seconds", type=int, default=60, help="duration of the search in seconds (default: %(default)s)"
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="directory of initial inputs; the search adds new inputs to it"
    )
    parser.add_argument(
        "--found", type=Path, metavar="DIR", default=Path("found"),
        help="directory in which failing inputs are saved (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--replay", type=Path, metavar="FILE", nargs="+", help="do not search; only run these inputs")
    parser.add_argument(
        "--shrink", type=Path, metavar="FILE", help="do not search; only shrink this input, which must fail"
    )
    arguments = parser.parse_args()
    if arguments.replay:
        for path in arguments.replay:
            run_target(load_target(arguments.target), path.read_bytes())
        return 0
    if arguments.shrink:
        arguments.shrink.write_bytes(shrink_input(load_target(arguments.target), arguments.shrink.read_bytes()))
        return 0
    try:
        from lbdns_tools.fuzz.coverage_search import search
    except ModuleNotFoundError as error:
        if error.name != "atheris":
            raise
        print("lbdns_tools.fuzz: atheris is not installed; run pip install -e './tools[fuzz]'", file=sys.stderr)
        return 2
    return search(arguments.target, arguments.seconds, arguments.corpus, arguments.found)


if __name__ == "__main__":
    sys.exit(main())
