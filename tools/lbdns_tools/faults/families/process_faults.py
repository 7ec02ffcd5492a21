"""Faults in the server's own processes: workers, the main process and the fork servers."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable
from typing import Final

from lbdns_tools.faults.fault import Fault, Limits, queries
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import service_manager
from lbdns_tools.faults.health_watch import HealthWatch
from lbdns_tools.faults.prober import answers_over_tcp
from lbdns_tools.faults.server_processes import cpu_seconds, is_alive, no_descriptors, signal_process
from lbdns_tools.faults.waiting import wait_for

HANG_S: Final = 4.0  # s within which a worker that hangs must be detected (heartbeats for 3 s) and killed


def workers_killed(bed: FaultBed) -> None:
    bed.begin()
    for _ in range(3):
        victim = bed.chance.choice(bed.farm.processes().workers)
        signal_process(victim, signal.SIGKILL)
        bed.recovers(bed.has_workers(2, without=(victim,)), "a new process replaces the worker")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")


def worker_hung(bed: FaultBed) -> None:
    victim = bed.chance.choice(bed.farm.processes().workers)
    with HealthWatch(bed.farm) as watch:
        bed.begin()
        signal_process(victim, signal.SIGSTOP)
        try:
            bed.recovers(bed.has_workers(2, without=(victim,)), "a new process replaces the worker")
            bed.recovers(bed.is_healthy, "/healthz responds with 200")
        finally:
            signal_process(victim, signal.SIGKILL)
    bed.expect(watch.was_unhealthy, "/healthz never responded with 503 while the worker hung")


def worker_hung_at_reload(bed: FaultBed) -> None:
    victim = bed.chance.choice(bed.farm.processes().workers)
    bed.begin()
    signal_process(victim, signal.SIGSTOP)
    try:
        bed.expect(bed.farm.control("reload").get("ok"), "the reload failed")
        bed.recovers(bed.has_workers(2, without=(victim,)), "a new process replaces the worker")
    finally:
        signal_process(victim, signal.SIGKILL)


def worker_without_descriptors(bed: FaultBed) -> None:
    victim = bed.chance.choice(bed.farm.processes().workers)
    seconds, lines = 5.0, bed.farm.log().count("\n")
    bed.begin()
    with contextlib.ExitStack() as clients, no_descriptors(victim):
        for _ in range(40):  # about half of them reach the victim's socket, and wait there
            clients.enter_context(socket.create_connection(("127.0.0.1", bed.farm.port), 5))
        used = cpu_seconds(victim)
        bed.keep(seconds)
        busy = (cpu_seconds(victim) - used) / seconds
        logged = bed.farm.log().count("\n") - lines
    bed.ease()
    bed.expect(
        busy < 0.5, f"the worker used {busy:.0%} of a core while it could not accept connections; the limit is 50%"
    )
    bed.expect(logged <= 10, f"the server logged {logged} lines in {seconds:g} s; the limit is 10")
    bed.recovers(lambda: all(answers_over_tcp(bed.farm.port) for _ in range(8)), "TCP connections are answered")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")


def worker_dies_while_main_has_no_descriptors(bed: FaultBed) -> None:
    processes = bed.farm.processes()
    victim = bed.chance.choice(processes.workers)
    with HealthWatch(bed.farm) as watch:
        bed.begin()
        with no_descriptors(processes.main):
            signal_process(victim, signal.SIGKILL)
            bed.keep(3.0)
            is_replaced = bed.has_workers(2, without=(victim,))()
        bed.ease()
        bed.recovers(bed.has_workers(2, without=(victim,)), "a new process replaces the worker")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
    bed.expect(is_replaced or watch.was_unhealthy, "/healthz responded with 200 while a worker was missing")


def main_killed(bed: FaultBed) -> None:
    before = bed.farm.processes()
    bed.begin()
    signal_process(before.main, signal.SIGKILL)
    gone = wait_for(lambda: not any(is_alive(pid) for pid in before.all), 5.0)
    bed.expect(gone is not None, "workers still run 5 s after the main process was killed")
    bed.farm.start_server(wait=False)
    bed.recovers(bed.answers, "queries are answered")
    bed.recovers(bed.all_usable, "all members are usable")


def main_flaps(bed: FaultBed) -> None:
    with service_manager(bed.farm):
        bed.begin()
        for _ in range(4):
            signal_process(bed.farm.server.pid, signal.SIGKILL)
            bed.keep(2.0)
        bed.ease()
        bed.recovers(bed.answers, "queries are answered")
        bed.recovers(bed.all_usable, "all members are usable")


def main_stopped(bed: FaultBed) -> None:
    before = bed.farm.processes()
    bed.begin()
    signal_process(before.main, signal.SIGSTOP)
    bed.keep(6.0)
    signal_process(before.main, signal.SIGCONT)
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")
    bed.keep(4.0)  # in which late heartbeats would cost workers their lives
    bed.expect(
        bed.farm.processes().workers == before.workers,
        "workers were replaced, although only the main process had stopped",
    )


def fork_server_killed(bed: FaultBed) -> None:
    bed.begin()
    for _ in range(2):
        before = bed.farm.processes()
        signal_process(before.fork_servers[0], signal.SIGKILL)
        bed.keep(1.0)
        signal_process(before.workers[0], signal.SIGKILL)
        bed.recovers(bed.has_workers(2, without=before.workers[:1]), "a new process replaces the worker")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
    bed.ease()
    bed.expect(len(bed.farm.processes().fork_servers) == 2, "the fork servers were not replaced")


def fork_server_stopped(bed: FaultBed) -> None:
    before = bed.farm.processes()
    with HealthWatch(bed.farm) as watch:
        bed.begin()
        signal_process(before.fork_servers[0], signal.SIGSTOP)
        signal_process(before.workers[0], signal.SIGKILL)
        bed.recovers(bed.has_workers(2, without=before.workers[:1]), "a new process replaces the worker")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
        bed.ease()
    bed.expect(watch.was_unhealthy, "/healthz never responded with 503 while a worker was missing")


def _fault(name: str, done: str, holds: str, run: Callable[[FaultBed], None], limits: Limits, quick: bool) -> Fault:
    return Fault(f"process.{name}", done, holds, run, limits, quick=quick)


#: While one of two workers hangs or is missing, half of the queries and a quarter of the second tries are lost
FAULTS: Final = (
    _fault("worker-killed", "three workers are killed, one after another",
           "a new worker starts immediately; only queries that the killed worker had received are lost",
           workers_killed, Limits(lost=12, recover_s=3), True),
    _fault("worker-hung", "a worker is stopped by SIGSTOP",
           "the worker is killed and replaced after 3 s; /healthz responds with 503 meanwhile",
           worker_hung, Limits(queries(HANG_S, 0.65), queries(HANG_S, 0.45), recover_s=6), True),
    _fault("worker-hung-at-reload", "a worker is stopped by SIGSTOP, and then the server is reloaded",
           "the worker is killed and replaced; the reload succeeds",
           worker_hung_at_reload, Limits(queries(HANG_S, 0.65), queries(HANG_S, 0.45), recover_s=7), False),
    _fault("worker-no-descriptors", "for 5 s, a worker cannot open more descriptors, while 40 clients connect over TCP",
           "UDP queries are answered; the worker does not busy-loop; TCP queries are answered again afterwards",
           worker_without_descriptors, Limits(recover_s=5), True),
    _fault("main-no-descriptors", "a worker is killed while the main process can open no descriptors (for 3 s)",
           "/healthz responds with 503 until the worker is replaced; descriptors are available again after 3 s",
           worker_dies_while_main_has_no_descriptors, Limits(queries(4, 0.65), queries(4, 0.45), recover_s=5), False),
    _fault("main-killed", "the main process is killed, and a service manager restarts the server",
           "all workers exit; after the restart, queries are answered and all members are usable", main_killed,
           Limits(queries(6), queries(6), recover_s=8), True),
    _fault("main-flaps", "the main process is killed four times, once every 2 s; a service manager restarts the server",
           "after the last restart, queries are answered and all members are usable", main_flaps,
           Limits(queries(10), queries(8), recover_s=8, log_lines=120), False),
    _fault("main-stopped", "the main process is stopped by SIGSTOP for 6 s",
           "the workers continue to answer; no worker is replaced", main_stopped, Limits(recover_s=5), False),
    _fault("fork-server-killed", "a fork server is killed, and a worker is killed 1 s later; both happen twice",
           "both processes are replaced; only queries that the killed worker had received are lost",
           fork_server_killed, Limits(lost=12, recover_s=3), False),
    _fault("fork-server-stopped", "a fork server is stopped by SIGSTOP, and a worker is killed",
           "/healthz responds with 503; the fork server and the worker are replaced after 3 s", fork_server_stopped,
           Limits(queries(HANG_S, 0.65), queries(HANG_S, 0.45), recover_s=6), False),
)  # fmt: skip
