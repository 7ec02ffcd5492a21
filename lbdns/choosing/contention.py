"""Contention: what other programs on a web server's host leave to the web server.

The estimated capacity assumes that no other program uses the host's CPUs. While other programs run, the web server gets
fewer CPU seconds and waits longer for CPU time. Without a correction, a server that gets too little CPU time would seem
nearly idle.

The kernel's scheduler shares the CPUs among the runnable tasks. Beside ``k`` other tasks, ``n`` requests get
``n / (n + k)`` of the CPU time: the web server's share grows with its requests, so that the tasks delay requests more
than they reduce the capacity (see ``operating_point``). Only CPU time that the run queue does not explain, such as time
that the hypervisor has stolen, reduces the capacity.

If the other tasks use up the CPU quota of a host's control group, the host stands still until the kernel refills the
quota. The CPUs are then not shared: a request that arrives meanwhile waits until the host runs again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

MEMORY: Final = 2.0  # s: time constant with which old observations fade
PRIOR: Final = 0.5  # requests in progress for a second: weight of the prior belief that no other program runs
CPU_PRIOR: Final = 0.3  # s on all cores: weight of the run queue as evidence of other tasks, against the CPU times
STATUS: Final = 1.0  # busy workers: the one that serves the agent's own request for the status page
PERIOD: Final = 0.1  # s: after which the kernel refills a CPU quota by default
MIN_TASKS: Final = 0.5  # fewer other tasks are chance: the run queue and the busy workers are not read at once


class Contention:
    """Estimates what other programs left to a member's web server during the last few seconds."""

    def __init__(self) -> None:
        self._last: Mapping[str, float] | None = None
        # Sums of seconds; the newest counts most. Products with the load are sums too, because cores enter only later
        self._used = self._used_load = self._idle = self._idle_load = self._load = self._seconds = 0.0
        self._tasks = 0.0  # runnable tasks other than requests
        self._stolen = 0.0

    def observe(self, metrics: Mapping[str, float], seconds: float) -> None:
        """Record the metrics of a report that came ``seconds`` after the previous report.

        A report that lacks CPU times or busy workers does not change the estimates. Without a run queue, no task but
        requests counts as runnable. Without ``cpu_steal``, the host never stands still.
        """
        last, self._last = self._last, metrics
        needed = ("httpd_cpu_seconds", "cpu_idle", "busy_workers")
        if last is None or seconds <= 0 or any(name not in metrics or name not in last for name in needed):
            return
        used = metrics["httpd_cpu_seconds"] - last["httpd_cpu_seconds"]
        if used < 0:
            return  # the web server has restarted
        idle = seconds * min(1.0, max(0.0, metrics["cpu_idle"] / 100))
        load = (_in_progress(last) + _in_progress(metrics)) / 2
        fading = math.exp(-seconds / MEMORY)
        self._used = self._used * fading + used
        self._used_load = self._used_load * fading + used * load
        self._idle = self._idle * fading + idle
        self._idle_load = self._idle_load * fading + idle * load
        self._load = self._load * fading + seconds * load
        self._seconds = self._seconds * fading + seconds
        self._tasks = self._tasks * fading + seconds * (_other_tasks(last) + _other_tasks(metrics)) / 2
        self._stolen = self._stolen * fading + seconds * min(1.0, max(0.0, metrics.get("cpu_steal", 0.0) / 100))

    def available_share(self, cores: float) -> float:
        """Return the fraction of the web server's capacity that other programs leave free: more than 0, at most 1.

        ``cores`` is the number of cores that count for the member. If a member reports more cores than it has, the
        result is too low: other programs seem to use the cores that do not exist.
        """
        # With n requests in progress, one core of capacity c serves c * n / (n + 1) requests/s (M/M/1), and beside k
        # other tasks c * n / (n + k + 1). A server that serves r requests/s therefore has a capacity of
        # r * (n + k + 1) / n. Idle CPU time was available to it as well
        parallel = max(1.0, cores, 1.0 + self.other_tasks(cores))
        got = (self._used_load + parallel * self._used) / cores + self._idle_load + parallel * self._idle
        return min(1.0, (got + PRIOR) / (self._load + parallel * self._idle + PRIOR))

    def other_tasks(self, cores: float) -> float:
        """Return the mean number of other programs' runnable tasks that compete with each of the member's requests.

        A control group can protect a web server from the tasks of other groups. The CPU times show it: the tasks then
        count as those that would leave the web server as much CPU time as it got.
        """
        if self._tasks <= MIN_TASKS * self._seconds:
            return 0.0
        found = self._tasks / self._seconds
        # Solve used = n / (n + k) for k, where n is the mean number of requests in progress
        used = self._used / cores
        others = max(0.0, self._seconds - self._idle - used)
        seen = (self._load * others / self._seconds + CPU_PRIOR * found) / (used + CPU_PRIOR)
        return min(found, seen) if seen > MIN_TASKS else 0.0

    def standstill(self, cores: float) -> float:
        """Return the mean time in seconds for which a request waits because the host stands still.

        Without other tasks, it is 0: the estimated capacity then already explains the time, because the requests
        themselves use up the quota.
        """
        if not self.other_tasks(cores):
            return 0.0
        # If a host stands still for a share s of each period, s of the requests wait, for s / 2 periods on average
        share = self._stolen / self._seconds
        return share * share * PERIOD / 2


def _other_tasks(metrics: Mapping[str, float]) -> float:
    run_queue = metrics.get("run_queue")
    return 0.0 if run_queue is None else run_queue - max(0.0, metrics["busy_workers"] - STATUS)


def _in_progress(metrics: Mapping[str, float]) -> float:
    return max(0.0, metrics["busy_workers"] - STATUS) + max(0.0, metrics.get("listen_queue", 0.0))
