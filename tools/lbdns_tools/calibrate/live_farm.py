"""Runs calibration trials on a live farm while the user's command generates load, and evaluates members' reports."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from lbdns.client.http_client import STATUS_PATH, HttpLocation, fetch
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.calibrate.calibration_trial import CalibrationTrial, TrialOutcome, weighable
from lbdns_tools.calibrate.live_configuration import LiveConfiguration
from lbdns_tools.percentiles import percentile

COUNTER: Final = "requests_total"
LOOK: Final = 0.25  # seconds between two readings of the status, under load and while waiting for reports
PATIENCE: Final = 10.0  # report intervals within which a member must report its requests again ...
LEAST_PATIENCE: Final = 10.0  # ... but at least this many seconds: a web server under load may delay its agent
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Member = Mapping[str, Any]


class LiveFarm:
    """A running ``lbdns serve`` and its web servers.

    The load starts at least ``settle`` seconds after the server has loaded a trial's configuration.
    """

    def __init__(self, config: LiveConfiguration, server: HttpLocation, load_command: str, settle: float) -> None:
        """Raises ConfigError if the load command is empty or contains an unmatched quote."""
        self._config, self._server, self._settle = config, server, settle
        self._chance = random.Random(1)
        self._stop = _StopSignal()
        try:
            self._command = shlex.split(load_command)
        except ValueError as error:
            raise ConfigError(f"--load-command: {load_command!r}: {error}") from None
        if not self._command:
            raise ConfigError(
                "--load-command: must not be empty; use a program that requests pages and then exits, such as 'ab ...'"
            )

    def metrics(self) -> Sequence[str]:
        """Return the metrics that all usable members report."""
        reported = [member["metrics"] for member in self._reported_since(time.monotonic()).values()]
        return [name for name in weighable(reported[0]) if all(name in metrics for metrics in reported)]

    def run(
        self, trials: Sequence[CalibrationTrial], rounds: int, on_done: Callable[[], None]
    ) -> list[list[TrialOutcome]]:
        """Run the trials of each round in random order, so that changes over time affect all trials equally."""
        found: list[list[TrialOutcome]] = [[] for _ in trials]
        with self._stop.on_signals(), self._config.kept():
            for _ in range(rounds):
                order = list(range(len(trials)))
                self._chance.shuffle(order)
                for at in order:
                    self._config.set(trials[at])
                    found[at].append(self._try(trials[at].name))
                    on_done()
        return found

    def _try(self, name: str) -> TrialOutcome:
        self._stop.wait(self._settle)
        before = self._reported_since(time.monotonic())
        watch = ReportWatch()
        began = time.monotonic()
        with _running(self._command) as load:
            while load.poll() is None:
                self._stop.wait(LOOK)
                watch.see(self._members())
        if load.returncode:
            raise LbdnsError(f"{name}: the load command {self._command[0]} failed with exit status {load.returncode}")
        seconds = time.monotonic() - began
        after = self._reported_since(time.monotonic())
        watch.see(after)
        return watch.outcome(requests_between(before, after, time.monotonic() - began), seconds)

    def _reported_since(self, moment: float) -> dict[str, Member]:
        """Wait until every usable member has sent a report after ``moment`` that contains its request count. Return
        these members.

        Raises LbdnsError if a member's report does not arrive in time.
        """
        while True:
            members = self._members()
            now = time.monotonic()
            late = [n for n, m in members.items() if now - m["age_s"] < moment or COUNTER not in m["metrics"]]
            if not late:
                return members
            longest = max(float(members[name]["interval_s"]) for name in late)
            if now - moment > max(LEAST_PATIENCE, PATIENCE * longest):
                raise LbdnsError(
                    f"{self._server.base}: {', '.join(late)}: no report with {COUNTER} for {now - moment:.0f} s; "
                    "check that the agent can read server-status"
                )
            self._stop.wait(min(LOOK, longest / 4))

    def _members(self) -> dict[str, Member]:
        """Return the usable members of all pools with their newest reports, keyed by full name."""
        try:
            status = json.loads(fetch(self._server, STATUS_PATH))
            members = {
                f"{member['name']}.{pool['zone']}": member
                for pool in status["pools"]
                for member in pool["members"]
                if member["state"] == "usable"
            }
        except (ValueError, KeyError, TypeError):
            raise LbdnsError(f"{self._server.base}: the response is not from lbdns") from None
        if not members:
            what = "no member is usable; calibration requires members that send reports"
            raise LbdnsError(f"{self._server.base}: {what}")
        return members


class ReportWatch:
    """The metrics from the reports that arrive while the load command runs; each report counts only once."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}
        self._busy = self._requests = 0.0
        self._seen: dict[str, Mapping[str, float]] = {}

    def see(self, members: Mapping[str, Member]) -> None:
        for name, member in members.items():
            metrics = member["metrics"]
            if self._seen.get(name) == metrics:
                continue
            self._seen[name] = metrics
            for metric in weighable(metrics):
                self._values.setdefault(metric, []).append(metrics[metric])
            # Subtract the agent's own request for server-status, which is counted and occupies a worker
            self._busy += max(0.0, metrics.get("busy_workers", 0.0) - 1.0)
            self._requests += max(0.0, metrics.get("requests_per_s", 0.0) - 1.0 / member["interval_s"])

    def outcome(self, requests: float, seconds: float) -> TrialOutcome:
        # Little's law: busy workers = requests/s * response time
        mean = self._busy / self._requests if self._requests > 0 else 0.0
        return TrialOutcome(
            requests / seconds, 1000 * mean, {name: percentile(v, 99) for name, v in self._values.items()}
        )


def requests_between(before: Mapping[str, Member], after: Mapping[str, Member], seconds: float) -> float:
    """Return the number of client requests served between two readings of the server's status document.

    Raises LbdnsError if a member became usable or unusable, or a web server restarted.
    """
    if changed := sorted(set(before) ^ set(after)):
        raise LbdnsError(
            f"{', '.join(changed)}: became usable or unusable during a trial; calibrate while all members are usable"
        )
    total = 0.0
    for name, member in after.items():
        more = member["metrics"][COUNTER] - before[name]["metrics"][COUNTER]
        if more < 0:
            raise LbdnsError(f"{name}: the web server restarted during a trial; run the calibration again")
        total += max(0.0, more - seconds / member["interval_s"])
    return total


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the load command in its own session, and kill all its processes when the context ends."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise ConfigError(f"--load-command: {command[0]}: {error.strerror}") from None
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _StopSignal:
    """A signal handler that raises errors only in ``wait``, so that no signal interrupts the restoration of a file."""

    def __init__(self) -> None:
        self._received = threading.Event()
        self._name = ""

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``. Raises LbdnsError immediately if a termination signal arrives."""
        if self._received.wait(seconds):
            raise LbdnsError(f"{self._name}: stopped before the calibration was complete")

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: object) -> None:
        self._name = signal.Signals(number).name
        self._received.set()
