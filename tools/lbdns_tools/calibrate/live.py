"""Trials on a live farm: the score set on the running server, a load that the user names, figures from the members."""

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

from lbdns.errors import ConfigError, LbdnsError
from lbdns.http_client import STATUS, fetch
from lbdns_tools.calibrate.live_config import LiveConfig
from lbdns_tools.calibrate.trial import Outcome, Trial, percentile, weighable

COUNTER: Final = "requests_total"
LOOK: Final = 0.25  # s between looks at the status while the load runs, and while new reports are waited for
PATIENCE: Final = 10.0  # report intervals that a member may take to report anew, requests and all ...
LEAST_PATIENCE: Final = (
    10.0  # ... but s at least: a loaded web server may leave its agent without an answer for a while
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Member = Mapping[str, Any]


class LiveFarm:
    """A running ``lbdns serve`` and its web servers. The load begins ``settle`` seconds after a trial was set."""

    def __init__(self, config: LiveConfig, url: str, load_command: str, settle: float, seed: int) -> None:
        """Raises ConfigError for a load command that is none."""
        self._config, self._url, self._settle = config, url, settle
        self._chance = random.Random(seed)
        self._stop = _Stop()
        try:
            self._command = shlex.split(load_command)
        except ValueError as error:
            raise ConfigError(f"--load-command: {load_command!r}: {error}") from None
        if not self._command:
            raise ConfigError("--load-command: is empty; name a program that asks for pages until it ends: 'ab ...'")

    def metrics(self) -> Sequence[str]:
        """Those that all members report that report at all."""
        reported = [member["metrics"] for member in self._reported_since(time.monotonic()).values()]
        return [name for name in weighable(reported[0]) if all(name in metrics for metrics in reported)]

    def run(self, trials: Sequence[Trial], rounds: int, on_done: Callable[[], None]) -> list[list[Outcome]]:
        """In each round all trials, in an order of chance: what changes with the hour hits all alike."""
        found: list[list[Outcome]] = [[] for _ in trials]
        with self._stop.on_signals(), self._config.kept():
            for _ in range(rounds):
                order = list(range(len(trials)))
                self._chance.shuffle(order)
                for at in order:
                    self._config.set(trials[at])
                    found[at].append(self._try(trials[at].name))
                    on_done()
        return found

    def _try(self, name: str) -> Outcome:
        self._stop.wait(self._settle)
        before = self._reported_since(time.monotonic())
        watch = Watch()
        began = time.monotonic()
        with _running(self._command) as load:
            while load.poll() is None:
                self._stop.wait(LOOK)
                watch.see(self._members())
        if load.returncode:
            raise LbdnsError(f"{name}: the load command ended with exit status {load.returncode}: {self._command[0]}")
        seconds = time.monotonic() - began
        after = self._reported_since(time.monotonic())
        watch.see(after)
        return watch.outcome(requests_between(before, after, time.monotonic() - began), seconds)

    def _reported_since(self, moment: float) -> dict[str, Member]:
        """The members, each with a report from after ``moment`` that counts requests. Raises LbdnsError if one has no
        more to say."""
        while True:
            members = self._members()
            asked = time.monotonic()
            late = [n for n, m in members.items() if asked - m["age_s"] < moment or COUNTER not in m["metrics"]]
            if not late:
                return members
            longest = max(float(members[name]["interval_s"]) for name in late)
            if asked - moment > max(LEAST_PATIENCE, PATIENCE * longest):
                raise LbdnsError(
                    f"{self._url}: {', '.join(late)}: no report with {COUNTER} for {asked - moment:.0f} s. "
                    "Can the agent read server-status?"
                )
            self._stop.wait(min(LOOK, longest / 4))

    def _members(self) -> dict[str, Member]:
        """The usable members of all pools with their newest reports, by full name."""
        try:
            status = json.loads(fetch(self._url, STATUS))
            members = {
                f"{member['name']}.{pool['zone']}": member
                for pool in status["pools"]
                for member in pool["members"]
                if member["state"] == "usable"
            }
        except (ValueError, KeyError, TypeError):
            raise LbdnsError(f"{self._url}: what answers there is not lbdns") from None
        if not members:
            raise LbdnsError(f"{self._url}: no member is usable: without reports nothing can be measured")
        return members


class Watch:
    """What the reports say while the load runs, each report counted once."""

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
            # The agent's own question is a request too, and busy while it counts
            self._busy += max(0.0, metrics.get("busy_workers", 0.0) - 1.0)
            self._requests += max(0.0, metrics.get("requests_per_s", 0.0) - 1.0 / member["interval_s"])

    def outcome(self, requests: float, seconds: float) -> Outcome:
        # Little's law: requests at work = requests per second * response time
        mean = self._busy / self._requests if self._requests > 0 else 0.0
        return Outcome(requests / seconds, 1000 * mean, {name: percentile(v) for name, v in self._values.items()})


def requests_between(before: Mapping[str, Member], after: Mapping[str, Member], seconds: float) -> float:
    """Requests that members served between two looks, without those of their agents. Raises LbdnsError."""
    if changed := sorted(set(before) ^ set(after)):
        raise LbdnsError(f"{', '.join(changed)}: came or went during a trial; calibrate when all members are well")
    total = 0.0
    for name, member in after.items():
        more = member["metrics"][COUNTER] - before[name]["metrics"][COUNTER]
        if more < 0:
            raise LbdnsError(f"{name}: its web server was restarted during a trial, which can't be measured")
        total += max(0.0, more - seconds / member["interval_s"])
    return total


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The load, in a session of its own, which is ended with all it started when the block is left."""
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


class InterruptedTrialError(LbdnsError):
    """Somebody wants this to end."""


class _Stop:
    """A signal that ends programs is heard here, and acted on only where something is waited for: never in the middle
    of putting things back."""

    def __init__(self) -> None:
        self._heard = threading.Event()
        self._name = ""

    def wait(self, seconds: float) -> None:
        """Raises InterruptedTrialError as soon as a signal has come."""
        if self._heard.wait(seconds):
            raise InterruptedTrialError(f"{self._name}: stopped before anything was found")

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: object) -> None:
        self._name = signal.Signals(number).name
        self._heard.set()
