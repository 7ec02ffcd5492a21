"""The farm that is asked: zone ``hobbit`` with three members, for lbdns and, with fixed answers, for its peers."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lbdns.keys import MasterKey, new_master_key
from lbdns.report import Report, encode
from lbdns_tools.ports import free_port

MEMBERS: Final[Mapping[str, str]] = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}
BEST: Final = ("best.hobbit", "A")
ROUND_ROBIN: Final = ("round.robin.hobbit", "A")
NEVER_BITES: Final = 100_000_000  # responses/s: above what any benchmark asks
INTERVAL: Final = 1.0  # seconds between two reports of one member, as agents send them
CHECK_LIMIT: Final = 20.0  # seconds 'lbdns check' may take

_ZONE = """$ORIGIN hobbit.
$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
"""


def zone_text(fixed: bool, ttl: int = 0) -> str:
    """The zone as a master file; with ``fixed``, the names that lbdns balances are aliases of one member."""
    members = "".join(f"{name} {0 if fixed else 60} A {address}\n" for name, address in MEMBERS.items())
    aliases = "".join(f"{name} {ttl} CNAME gandalf\n" for name in ("best", "round.robin")) if fixed else ""
    return _ZONE + members + aliases


def rate_limit(responses_per_second: int | None = None) -> str:
    """The section that limits every source, loopback too; without a number at the limit that lbdns has by default."""
    limit = "" if responses_per_second is None else f"responses_per_second = {responses_per_second}\n"
    return f"[rate_limit]\n{limit}exempt = []\n"


def accepts(folder: Path, config: str) -> str:
    """Nothing if ``lbdns check`` accepts this configuration, else what it says against it."""
    path = folder / "tried.toml"
    path.write_text(config)
    words = [sys.executable, "-m", "lbdns", "check", "-c", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=CHECK_LIMIT, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()


class Farm:
    """The files of one lbdns in a folder, and its ports."""

    def __init__(
        self,
        folder: Path,
        *,
        limit: int | None = NEVER_BITES,
        zone: str = "",
        plane: str = "auto",
        address: str = "0.0.0.0",
        pool: str = "",
    ) -> None:
        """``limit`` is in responses/s, None for the default; ``zone`` are more lines of the zone file, ``pool`` of the
        pool's configuration."""
        self.folder = folder
        self.port, self.report_port = free_port(), free_port()
        self.key = new_master_key()
        (folder / "hobbit.zone").write_text(zone_text(fixed=False))
        (folder / "report.key").touch(mode=0o600)
        (folder / "report.key").write_text(self.key.line() + "\n")
        self.plane = plane
        config = self._config(address) + pool
        section = rate_limit(limit)
        self.refused = accepts(folder, config + section)
        self.limited = not self.refused
        (folder / "hobbit.zone").write_text(zone_text(fixed=False) + zone)  # now: a long one takes long to check
        self.config = folder / "lbdns.toml"
        self.config.write_text(config + (section if self.limited else ""))

    def _config(self, address: str) -> str:
        # A wildcard address is the dear case: each answer has to leave from the address that was asked
        members = ", ".join(f'"{name}"' for name in MEMBERS)
        return (
            f'[server]\nlisten = ["{address}:{self.port}"]\nstate_dir = "state"\n{plane_line(self.plane)}'
            f'[collector]\nlisten = ["127.0.0.1:{self.report_port}"]\nkey_file = "report.key"\n'
            '[web]\nlisten = "off"\n'
            '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'
            f'[[pool]]\nname = "web"\nzone = "hobbit"\nmembers = [{members}]\n'
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "lbdns", "serve", "-c", str(self.config), "--log-level", "info"]

    def note(self) -> str:
        """What a reader of the figures has to know of rate limiting."""
        if self.limited:
            return "rate limiting: on"
        return f"rate limiting: OFF, this lbdns does not take it ({self.refused.splitlines()[-1].partition(': ')[2]})"


class Reports:
    """The three members' agents in a thread: each reports once an interval, changing, so that plans are made anew."""

    def __init__(self, port: int, key: MasterKey) -> None:
        self._to = ("127.0.0.1", port)
        self._keys = {name: key.agent_key(name) for name in MEMBERS}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Reports:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(5)

    def _send(self) -> None:
        chance = random.Random(1)
        boot = chance.getrandbits(63)
        number = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not self._ended.wait(INTERVAL / len(MEMBERS) if number else 0):
                name = list(MEMBERS)[number % len(MEMBERS)]
                number += 1
                report = Report(name, boot, number, time.time(), INTERVAL, loads(chance, number))
                sock.sendto(encode(report, self._keys[name]), self._to)


def loads(chance: random.Random, number: int) -> dict[str, float]:
    """Metrics of a member that serves: all that the policies look at, moving."""
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


def plane_line(plane: str) -> str:
    """A line of [server]: who answers, Python alone or the native part; 'auto' leaves that to lbdns."""
    return "" if plane == "auto" else f'plane = "{plane}"\n'
