"""``python -m lbdns_tools.fuzz``: search, or give single inputs to a target."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lbdns_tools.fuzz.shrink import shrunk
from lbdns_tools.fuzz.targets import TARGETS, load, run

EPILOG = """examples:
  python -m lbdns_tools.fuzz zonefile --seconds 1800 --corpus ~/fuzz/zonefile
  python -m lbdns_tools.fuzz zonefile --shrink found/found-0123456789ab   (makes it smaller, in place)
  python -m lbdns_tools.fuzz zonefile --replay found/found-0123456789ab   (with its traceback)"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lbdns_tools.fuzz",
        description="Look for inputs that a target does not take as it should.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60, help="how long to search (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="inputs to begin with; new ones are added")
    parser.add_argument("--found", type=Path, metavar="DIR", default=Path("found"), help="for what goes wrong")
    parser.add_argument("--replay", type=Path, metavar="FILE", nargs="+", help="only try these inputs")
    parser.add_argument("--shrink", type=Path, metavar="FILE", help="only make this input that goes wrong smaller")
    arguments = parser.parse_args()
    if arguments.replay:
        for path in arguments.replay:
            run(load(arguments.target), path.read_bytes())
        return 0
    if arguments.shrink:
        arguments.shrink.write_bytes(shrunk(load(arguments.target), arguments.shrink.read_bytes()))
        return 0
    try:
        from lbdns_tools.fuzz.search import search
    except ModuleNotFoundError as error:
        if error.name != "atheris":
            raise
        print("lbdns_tools.fuzz: atheris is not installed; pip install -e '.[fuzz]' brings it", file=sys.stderr)
        return 2
    return search(arguments.target, arguments.seconds, arguments.corpus, arguments.found)


if __name__ == "__main__":
    sys.exit(main())
