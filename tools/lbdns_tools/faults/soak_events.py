"""The faults that occur during a soak, with the losses and log lines that each fault explains."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.families.flood_faults import datagram_report, dns_datagram, flood, http_request, to_tcp, to_udp
from lbdns_tools.faults.fault_farm import FaultFarm
from lbdns_tools.faults.server_processes import signal_process
from lbdns_tools.faults.slow_clients import Connections

MIN_GAP_S, MAX_GAP_S = 12.0, 25.0  # between the ends and beginnings of events
CONNECTIONS: Final = 500
NO_REPORT: Final = r"is (silent|usable)|fails open|fails? open"


@dataclass(frozen=True, slots=True)
class SoakEvent:
    """An event in a soak test. ``do`` injects a fault and removes it after a few seconds.

    The event may cause the loss of all queries that the soak test sends in ``lost_s`` seconds, but no more.
    ``explains`` is a regular expression for the log lines that the event explains.
    """

    name: str
    do: Callable[[FaultFarm, Random], None]
    lost_s: float = 0.0
    explains: str = "(?!)"


def _reload(farm: FaultFarm, chance: Random) -> None:
    farm.config.write_text(farm.configuration().replace("[[pool]]", f"[[pool]]\nramp_up = {chance.randint(5, 15)}"))
    farm.control("reload")


def _broken_reload(farm: FaultFarm, chance: Random) -> None:
    farm.config.write_text(farm.configuration() + chance.choice(("colour = 1\n", "[[pool]]\n", "[\n", "\0")))
    with contextlib.suppress(LbdnsError):
        farm.control("reload")
    farm.write_files()


def _kill_worker(farm: FaultFarm, chance: Random) -> None:
    if workers := farm.processes().workers:
        signal_process(chance.choice(workers), signal.SIGKILL)


def _hang_worker(farm: FaultFarm, chance: Random) -> None:
    if workers := farm.processes().workers:
        victim = chance.choice(workers)
        signal_process(victim, signal.SIGSTOP)
        time.sleep(8.0)
        signal_process(victim, signal.SIGKILL)


def _kill_agent(farm: FaultFarm, chance: Random) -> None:
    name = chance.choice(list(MEMBERS))
    farm.agents[name].stop(signal.SIGKILL)
    time.sleep(5.0)
    farm.start_agent(name)


def _stop_agent(farm: FaultFarm, chance: Random) -> None:
    agent = farm.agents[chance.choice(list(MEMBERS))].pid
    signal_process(agent, signal.SIGSTOP)
    time.sleep(5.0)
    signal_process(agent, signal.SIGCONT)


def _drain(farm: FaultFarm, chance: Random) -> None:
    member = chance.choice(list(MEMBERS))
    farm.control("drain", member=member, reason="soak")
    time.sleep(2.0)
    farm.control("undrain", member=member)


def _connections(farm: FaultFarm, chance: Random) -> None:
    port = chance.choice((farm.port, farm.http_port))
    with contextlib.closing(Connections(port, CONNECTIONS)):
        time.sleep(3.0)


def _flood(farm: FaultFarm, chance: Random) -> None:
    send, message = chance.choice((
        (to_udp(farm.port), dns_datagram), (to_udp(farm.report_port), datagram_report),
        (to_tcp(farm.http_port), http_request),
    ))  # fmt: skip
    with flood(send, message, chance):
        time.sleep(3.0)


def _lock_history(farm: FaultFarm, chance: Random) -> None:
    connection = sqlite3.connect(farm.state / "history.db", timeout=5, isolation_level=None)
    with contextlib.closing(connection), contextlib.suppress(sqlite3.OperationalError):
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(chance.uniform(2, 7))
        connection.execute("ROLLBACK")


def _take_over(farm: FaultFarm, chance: Random) -> None:
    before = farm.server
    farm.start_server("--take-over", wait=False)
    end = time.monotonic() + 30
    while before.running and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(2.0)


EVENTS: Final = (
    SoakEvent("reload", _reload, explains=r"reload|in force"),
    SoakEvent("broken reload", _broken_reload, explains=r"reload|lbdns\.toml"),
    SoakEvent("worker killed", _kill_worker, 0.2, r"worker \d"),
    SoakEvent("worker hung", _hang_worker, 5.0, r"worker \d|not healthy|healthz|heartbeat"),
    SoakEvent("agent killed", _kill_agent, explains=NO_REPORT),
    SoakEvent("agent stopped", _stop_agent, explains=NO_REPORT + r"|clock"),
    SoakEvent("member drained", _drain, explains=r"drain|undrained|is usable"),
    SoakEvent("500 idle connections", _connections, explains=r"connections|descriptor|refused|time-out|timed out"),
    SoakEvent("malformed flood", _flood, explains=r"refused|rejected|dropped|shed|overflow|not valid|request"),
    SoakEvent("history locked", _lock_history, explains=r"history"),
    SoakEvent("take-over", _take_over, explains=r"take|ready|answering DNS|receiving reports|serving http|stopped|key|"
              r"handed|reports are accepted|no report yet"),
)  # fmt: skip
#: Lines that need no fault
ALWAYS: Final = (
    r"ready: |answering DNS|receiving reports|serving http|reports are accepted|stopped|no report yet|is usable|"
    r"no longer fails open|more (like this|of this kind)|clocks? "
)


def schedule(seconds: float, chance: Random) -> list[tuple[float, SoakEvent]]:
    """Return the events and their times in seconds after the beginning.

    No event occurs a second time before all other events have occurred.
    """
    found: list[tuple[float, SoakEvent]] = []
    left: list[SoakEvent] = []
    at = 10.0
    while True:
        at += chance.uniform(MIN_GAP_S, MAX_GAP_S)
        if at > seconds - MAX_GAP_S:
            return found
        if not left:
            left = chance.sample(EVENTS, len(EVENTS))
        found.append((at, left.pop()))
