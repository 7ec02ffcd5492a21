"""Memory faults: the server runs out of memory while it loads a large zone, or a worker is killed."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import address_records
from lbdns_tools.faults.fault import Fault, Limits, queries
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan, service_manager
from lbdns_tools.faults.server_processes import signal_process

MARGIN: Final = 64 * 2**20  # bytes of address space that a process may still take
RECORDS: Final = 150_000  # of a zone that needs far more than MARGIN


def address_space(pid: int) -> int:
    """Return the size of a process's address space in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def little_memory(*pids: int) -> Iterator[None]:
    """Limit the address space of each process in ``pids`` to its current size plus MARGIN."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_AS) for pid in pids}
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_AS, (address_space(pid) + MARGIN, before[pid][1]))
    try:
        yield
    finally:
        for pid, limits in before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_AS, limits)


def write_large_zone(bed: FaultBed) -> None:
    zone = bed.folder / "hobbit.zone"
    zone.write_text(zone.read_text() + address_records(f"host{number}" for number in range(RECORDS)))


def reload_without_memory(bed: FaultBed) -> None:
    """Reload a zone that needs too much memory: the server may reject the zone, or exit and be restarted."""
    processes = bed.farm.processes()
    bed.begin()
    with service_manager(bed.farm):
        with little_memory(processes.main, *processes.workers):
            write_large_zone(bed)
            try:
                bed.farm.control("reload")
                bed.expect(False, "the server accepted a zone that needs too much memory")
            except LbdnsError as error:
                bed.notes["error"] = str(error)
            bed.farm.write_files()
            bed.keep(2.0)
        bed.ease()
        bed.notes["main survived"] = bed.farm.processes().main == processes.main
        bed.recovers(bed.all_usable, "all members are usable")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
        bed.expect(bed.farm.control("reload").get("ok"), "the server rejected the small zone afterwards")


def worker_killed_for_memory(bed: FaultBed) -> None:
    """Repeatedly kill the worker that uses the most memory, as the kernel's OOM killer would."""
    bed.begin()
    for _ in range(4):
        workers = bed.farm.processes().workers
        signal_process(max(workers, key=address_space), signal.SIGKILL)
        bed.keep(1.0)
    bed.ease()
    bed.recovers(bed.has_workers(2), "two workers run")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")


FAULTS: Final = (
    Fault("memory.reload",
          f"each process may allocate only {MARGIN >> 20} MB more (RLIMIT_AS); a zone with {RECORDS} names is loaded",
          "the server keeps the old zone, or exits and is restarted by a service manager", reload_without_memory,
          Limits(queries(6), queries(6), recover_s=8, growth_mb=80, log_lines=1000, has_clean_log=False)),
    Fault("memory.worker-killed", "the largest worker is killed every second, as if by the kernel's OOM killer",
          "each killed worker is replaced", worker_killed_for_memory, Limits(lost=30, lost_after_retry=4)),
    Fault("memory.worker-killed-large", "the largest worker is killed every second; the zone contains 100,000 names",
          "each killed worker is replaced", worker_killed_for_memory, Limits(queries(8), queries(6), recover_s=10),
          FarmPlan(zone=address_records(f"host{number}" for number in range(100_000)))),
)  # fmt: skip
