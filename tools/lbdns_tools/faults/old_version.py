"""Extracts an older version of lbdns from the checkout's Git history."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import LbdnsProgram

CHECKOUT: Final = Path(__file__).parents[3]
#: Names the commit or tag of the older version; without it, the newest tag, or else the commit BACK commits ago
VARIABLE: Final = "LBDNS_OLD_VERSION"
BACK: Final = 40
PACKAGES: Final = ("lbdns", "agent", "collector")


@cache
def revision() -> str:
    """Return the commit of the older version, or "" if the checkout has no such commit."""
    wanted = os.environ.get(VARIABLE) or _git("describe", "--tags", "--abbrev=0", "HEAD^") or f"HEAD~{BACK}"
    return _git("rev-parse", "--short", "--verify", "--quiet", f"{wanted}^{{commit}}")


def why_unavailable() -> str:
    """Return the reason why no older version is available, or "" if one is available."""
    return "" if revision() else "the project's directory is not a Git checkout with older commits"


def extract(folder: Path) -> LbdnsProgram:
    """Extract the older version's packages to ``folder``, and return the program. Raises LbdnsError."""
    command = ["git", "-C", str(CHECKOUT), "archive", "--format=tar", revision(), *PACKAGES]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise LbdnsError(f"cannot read the older version: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return LbdnsProgram(folder)


def agent_command(program: LbdnsProgram) -> tuple[str, ...]:
    """Return the command of the agent that belongs to ``program``."""
    return (*program.command()[:-1], "lbdns_agent")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
