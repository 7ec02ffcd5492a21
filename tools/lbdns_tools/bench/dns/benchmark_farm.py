"""The farm for DNS benchmarks, with the zone ``hobbit``. lbdns serves a pool; its peers serve fixed aliases instead."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.keys import MasterKey, new_master_key
from lbdns_shared.report import Report, encode
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.free_ports import free_port

MEMBERS: Final[Mapping[str, str]] = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}
BEST: Final = ("best.hobbit", "A")
ROUND_ROBIN: Final = ("round.robin.hobbit", "A")
UNREACHED_LIMIT: Final = 100_000_000  # responses/s: more than any benchmark reaches
INTERVAL: Final = 1.0  # seconds between two reports of one member, as agents send them
CHECK_LIMIT: Final = 20.0  # seconds 'lbdns check' may take

ZONE_HEAD: Final = "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n"


def zone_text(fixed: bool, ttl: int = 0) -> str:
    """Return the master file of zone hobbit. If ``fixed`` is true, the names that lbdns otherwise balances are aliases
    of one member."""
    members = "".join(f"{name} {0 if fixed else 60} A {address}\n" for name, address in MEMBERS.items())
    aliases = "".join(f"{name} {ttl} CNAME gandalf\n" for name in ("best", "round.robin")) if fixed else ""
    return f"$ORIGIN hobbit.\n{ZONE_HEAD}{members}{aliases}"


def loopback_address(number: int) -> str:
    """Return a distinct loopback address for each ``number`` up to a million."""
    return f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def address_records(names: Iterable[str]) -> str:
    """Return an A record for each of the ``names``, as lines of a master file."""
    return "".join(f"{name} A {loopback_address(number)}\n" for number, name in enumerate(names))


def rate_limit(responses_per_second: int | None = None) -> str:
    """Return a [rate_limit] section for all sources, including loopback addresses. A limit of None selects the default
    limit."""
    limit = "" if responses_per_second is None else f"responses_per_second = {responses_per_second}\n"
    return f"[rate_limit]\n{limit}exempt = []\n"


def configuration(address: str, report_port: int, zone: str, plane: str) -> str:
    """Return the configuration of a server that listens on ``address``, without pools or HTTP."""
    plane_line = "" if plane == "auto" else f'plane = "{plane}"\n'
    return (
        f'[server]\nlisten = ["{address}"]\nstate_dir = "state"\n{plane_line}'
        f'[collector]\nlisten = ["127.0.0.1:{report_port}"]\nkey_file = "report.key"\n'
        f'[web]\nlisten = "off"\n[[zone]]\nname = "{zone}"\nfile = "{zone}.zone"\n'
    )


def pool_table(name: str, zone: str, members: Iterable[str], names: str = "") -> str:
    """Return a [[pool]] table. ``names`` contains the entries for the pool's names, such as ``best = "best"``."""
    table = f'[[pool]]\nname = "{name}"\nzone = "{zone}"\nmembers = {json.dumps(list(members))}\n'
    return table + (f"names = {{ {names} }}\n" if names else "")


def write_key(folder: Path) -> MasterKey:
    """Write a new master key to report.key in ``folder`` and return the key."""
    key = new_master_key()
    (folder / "report.key").touch(mode=0o600)
    (folder / "report.key").write_text(key.line() + "\n")
    return key


@dataclass(frozen=True, slots=True)
class LbdnsProgram:
    """The copy of lbdns to run: the one in ``checkout``, or the one on this process's import path if ``checkout`` is
    None."""

    checkout: Path | None = None

    def __post_init__(self) -> None:
        """Raise BenchmarkError if ``checkout`` does not contain the package ``lbdns``."""
        if self.checkout and not (self.checkout / "lbdns" / "__init__.py").is_file():
            raise BenchmarkError(f"{self.checkout}: must be a checkout of the project, but has no lbdns/__init__.py")

    def command(self, *arguments: str) -> list[str]:
        if not self.checkout:
            return [sys.executable, "-m", "lbdns", *arguments]
        packages = os.pathsep.join(str(self.checkout / part) for part in ("", "agent", "collector"))
        own = self.checkout / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        return ["env", f"--chdir={self.checkout}", f"PYTHONPATH={packages}", python, "-m", "lbdns", *arguments]

    def error(self, config: Path) -> str:
        """Return the error that ``lbdns check`` prints for a configuration, or "" if it is valid."""
        check = self.command("check", "-c", str(config))
        done = subprocess.run(check, capture_output=True, text=True, timeout=CHECK_LIMIT, check=False)
        return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()


class BenchmarkFarm:
    """The ports of an lbdns server and its files in ``folder``."""

    def __init__(
        self,
        folder: Path,
        *,
        limit: int | None = UNREACHED_LIMIT,
        zone: str = "",
        plane: str = "auto",
        pool: str = "",
        program: LbdnsProgram = LbdnsProgram(),
    ) -> None:
        """``limit`` is in responses/s; a ``limit`` of None selects the default limit.

        ``zone`` is appended to the zone file, and ``pool`` to the pool's table.
        """
        self.folder, self.plane, self.program = folder, plane, program
        self.port, self.report_port = free_port(), free_port()
        self.key = write_key(folder)
        self.config = folder / "lbdns.toml"
        (folder / "hobbit.zone").write_text(zone_text(fixed=False))
        # A wildcard address is the expensive case: each answer must leave from the address that received the query
        text = configuration(f"0.0.0.0:{self.port}", self.report_port, "hobbit", plane)
        text += pool_table("web", "hobbit", MEMBERS) + pool
        self.config.write_text(text + rate_limit(limit))
        self.refused = program.error(self.config)
        self.limited = not self.refused
        if not self.limited:
            self.config.write_text(text)
        # After the check, because a long zone takes long to check
        (folder / "hobbit.zone").write_text(zone_text(fixed=False) + zone)

    def command(self) -> list[str]:
        return self.program.command("serve", "-c", str(self.config), "--log-level", "info")

    def note(self) -> str:
        """Return a note that states whether rate limiting is on."""
        if self.limited:
            return "rate limiting: on"
        return (
            "rate limiting: OFF, because this lbdns does not support it "
            f"({self.refused.splitlines()[-1].partition(': ')[2]})"
        )


@contextlib.contextmanager
def reporting_members(port: int, key: MasterKey) -> Iterator[None]:
    """Send the three members' reports from a thread for the duration of a with statement."""
    ended = threading.Event()
    thread = threading.Thread(target=send_reports, args=(port, key, list(MEMBERS), ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5)


def send_reports(port: int, key: MasterKey, hosts: Sequence[str], ended: threading.Event) -> None:
    """Send a report with new metrics from each host once per INTERVAL, evenly spaced, until ``ended`` is set."""
    keys = [key.agent_key(host) for host in hosts]
    chance = random.Random(1)
    boot, begin, number = chance.getrandbits(63), time.monotonic(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        while not ended.wait(max(0.0, begin + number * INTERVAL / len(hosts) - time.monotonic())):
            turn, at = divmod(number, len(hosts))
            number += 1
            report = Report(hosts[at], boot, turn + 1, time.time(), INTERVAL, random_metrics(chance, turn + 1))
            sock.sendto(encode(report, keys[at]), ("127.0.0.1", port))


def random_metrics(chance: random.Random, number: int) -> dict[str, float]:
    """Return random metrics for the ``number``-th report of a busy member, with every metric that policies use."""
    return {
        "run_queue": float(chance.randrange(8)),
        "cpu_idle": chance.uniform(20, 90),
        "gateway_ping": chance.uniform(0.1, 2),
        "requests_per_s": chance.uniform(50, 200),
        "busy_workers": float(chance.randrange(1, 12)),
        "idle_workers": float(chance.randrange(5, 20)),
        "cpu_count": 2.0,
        "requests_total": 100.0 * number,
        "httpd_cpu_seconds": 0.7 * number,
    }
