"""The agent's main loop: samples the host and sends scheduled reports, immediate alarms and a final ``bye`` report."""

from __future__ import annotations

import gc
import logging
import math
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lbdns_agent.agent_check.agent_check import AgentCheck
from lbdns_agent.agent_options import DEFAULT_MAX_INTERVAL, AgentOptions
from lbdns_agent.alarm_conditions import ALARM_CHECK_INTERVAL, alarm_reason
from lbdns_agent.collector_status import TOKEN_VARIABLE, CollectorStatus
from lbdns_agent.configured_sensors import configured_sensors
from lbdns_agent.host_sampler import HostSampler
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.report_sender import RECOVERY_TIME, ReportSender
from lbdns_agent.sensor import open_host, reopen_host
from lbdns_agent.service_state import ServiceState
from lbdns_agent.signing_key import load_signing_key
from lbdns_agent.webserver.status_page import TIMEOUT
from lbdns_agent.webserver.web_server_watch import LOOK_INTERVAL, WebServerWatch
from lbdns_shared.bus_subject import report_subject
from lbdns_shared.errors import LbdnsError
from lbdns_shared.report import AgentKey, Kind, Report, encode

if TYPE_CHECKING:
    from lbdns_agent.bus.bus_publisher import BusPublisher
    from lbdns_agent.text_page.text_page import TextPage

LONGEST_WAIT: Final = 0.25  # seconds, and share of the interval, for which a report waits for non-blocking sensors
NAME_TIMEOUT: Final = 1.0  # seconds that the first report waits for the lookups of the collectors' names
LAST_PUBLISH: Final = 0.5  # seconds that a stopping agent waits for a bus to take its last report
STOP: Final = (signal.SIGTERM, signal.SIGINT)
RELOAD: Final = signal.SIGHUP
#: Options that SIGHUP does not change
RESTART_ONLY: Final = ("agent_check", "agent_check_file", "cgroup", "gateway", "serve")

log = logging.getLogger("lbdns.agent")


@dataclass(frozen=True)
class ReportSchedule:
    """A fixed report schedule: report k is due at ``first + k * interval`` (monotonic seconds).

    A missed report is skipped, not sent late.
    """

    first: float
    interval: float

    def next_report(self, now: float) -> float:
        """Return the time of the first report due after ``now``."""
        if now < self.first:
            return self.first
        passed = math.floor((now - self.first) / self.interval)
        due = self.first + (passed + 1) * self.interval
        return due if due > now else self.first + (passed + 2) * self.interval

    def next_alarm_check(self, now: float, due: float) -> float:
        """Return the time of the next alarm check or of the next report (at ``due``), whichever is earlier."""
        # A check less than half a check interval before a report is not worth its cost
        check = now + ALARM_CHECK_INTERVAL
        return check if check < due - ALARM_CHECK_INTERVAL / 2 else due


class SignalPipe:
    """A handler that catches this process's stop and reload signals until ``close`` is called.

    Use this class only in the main thread.

    When a signal arrives, the descriptor ``fd`` becomes readable, so the agent can wait for signals with poll(2).

    """

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe()
        for end in (self.fd, self._write_end):
            os.set_blocking(end, False)
        self._fd_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        # Python writes to the descriptor only if there is a handler; the caller of ``take`` acts on the signal
        self._before = {number: signal.signal(number, lambda *_: None) for number in (*STOP, RELOAD)}

    def take(self) -> list[int]:
        """Return the numbers of the signals that have arrived since the last call, in order of arrival."""
        try:
            return list(os.read(self.fd, 64))
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Stop catching signals, and restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self.fd)
        os.close(self._write_end)


class ReportingAgent:
    """A running agent, from startup until the final ``bye`` report."""

    def __init__(
        self, options: AgentOptions, signals: SignalPipe, reread: Callable[[], AgentOptions] | None = None
    ) -> None:
        """``reread`` returns the options after a change of the configuration file, or raises LbdnsError.

        Raises LbdnsError if the key file or the cgroup is unusable, or if the operating system isn't supported.
        """
        self._signals = signals
        self._reread = reread
        self._state = ServiceState(time.monotonic())
        self._boot = random.getrandbits(64)
        self._seq = 0
        self._metrics: dict[str, float] = {}
        self._alarm = self._overload = ""
        key = load_signing_key(options.key_file, options.name)
        self._host = open_host(options)
        self._agent_check: AgentCheck | None = None
        if options.agent_check:
            self._agent_check = AgentCheck(options.agent_check, options.agent_check_file, lambda: self._alarm)
        self._page = _open_page(options, lambda: self._alarm)
        self._use(options, key)

    def _use(self, options: AgentOptions, key: AgentKey | None) -> None:
        """Measure ``self._host`` and send reports as the options say."""
        self._options = options
        self._key = key
        self._tasks = SensorTasks(self._signals.fd)
        measured = replace(options, all_metrics=options.all_metrics or self._page is not None)
        self._sampler = HostSampler(self._host, self._tasks, configured_sensors(measured)[0])
        watched = self._host.web if options.alarms else None
        self._watch = WebServerWatch(watched.is_listening, watched.port) if watched else None
        recovery_time = max(RECOVERY_TIME, 2 * options.interval)
        self._sender = ReportSender(options.collectors, recovery_time, options.addresses, _open_bus(options))
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        for url in options.collector_urls:
            status = CollectorStatus(url, options.name, self._boot, options.interval, lambda: self._key, token)
            self._tasks.add(status.poll, TIMEOUT, awaited=False)
        self._watched = frozenset(condition.metric for condition in options.alarms)
        if self._agent_check:
            self._tasks.services.append(self._agent_check.server)
        if self._page:
            self._tasks.services.append(self._page.server)
        if self._sender.bus:
            self._tasks.services.append(self._sender.bus)

    def run(self) -> int:
        """Send reports until a signal stops the agent. Return the exit status."""
        while not self._run_until_changed():
            pass
        return 0

    def _run_until_changed(self) -> bool:
        """Send reports until a signal stops the agent or changes its options. Return whether the agent must stop."""
        options = self._options
        self._log_start()
        self._sample()  # the first report computes differences from this sample
        if self._watch:
            self._watch.look()  # a web server that listens now may fail before the first report
        self._sender.wait_for_names(NAME_TIMEOUT)
        gc.freeze()  # these objects live as long as the agent: garbage collection need not visit them
        # A random offset, so that the agents of many hosts don't all report at the same moment
        schedule = ReportSchedule(time.monotonic() + random.random() * options.interval, options.interval)
        due = check = look = schedule.first  # check is never later than due
        state = self._state
        state.ready()
        while True:
            # Each wake-up costs more than a look: alarm checks wait for the next look, if the web server is watched
            wake = min(due, look if self._watch else check, state.alive_due)
            if self._tasks.wait(wake):
                if self._handle_signals():
                    return True
                if self._options is not options:
                    return False
            now = time.monotonic()
            state.alive(now)
            if now >= due:
                self._report()
                due = schedule.next_report(time.monotonic())
            elif now >= check:
                self._check_alarms()
            if now >= check:
                check = schedule.next_alarm_check(time.monotonic(), due) if self._watched and self._metrics else due
            if self._watch and now >= look:
                self._look_at_web_server(self._watch)
                look = time.monotonic() + LOOK_INTERVAL

    def _handle_signals(self) -> bool:
        for number in self._signals.take():
            if number in STOP:
                self._state.stopping()
                self._send("bye", {})
                self._sender.finish(LAST_PUBLISH)
                if self._agent_check:
                    self._tasks.wait(self._agent_check.stop())  # another signal ends this at once
                    self._agent_check.close()
                if self._page:
                    self._page.close()
                log.info("stopped")
                return True
            self._reload()
        return False

    def _log_start(self) -> None:
        options = self._options
        if options.agent_check:
            where = options.agent_check if options.agent_check.host else f"port {options.agent_check.port}"
            log.info("answering HAProxy's agent checks on %s", where)
        if options.serve:
            log.info("serving the figures of this host at http://%s/", options.serve)
        receivers = (*options.collectors, *options.bus.servers)
        if not receivers:
            return
        log.info(
            "reporting as %s every %g s to %s (%s)",
            options.name,
            options.interval,
            ", ".join(map(str, receivers)),
            f"signed with key {self._key.key_id.hex()}" if self._key else "unsigned",
        )
        if options.interval > DEFAULT_MAX_INTERVAL:
            log.warning(
                "--interval %g: by default, collectors expect a report at least every %g s, and would soon consider "
                "this host silent; set [collector] max_interval to at least %g on each collector",
                *(options.interval, DEFAULT_MAX_INTERVAL, options.interval),
            )

    def _sample(self) -> Mapping[str, float]:
        """Take a sample for the page, and return the metrics that reports contain."""
        options, interval = self._options, self._options.interval
        sample = self._sampler.sample(min(LONGEST_WAIT, LONGEST_WAIT * interval), interval)
        if self._page:
            self._page.observe(options.name, interval, sample)
        if options.all_metrics or not self._page:
            return sample.metrics
        return {name: sample.metrics[name] for name in options.metric_names() if name in sample.metrics}

    def _report(self) -> None:
        self._metrics = dict(self._sample())
        if self._agent_check:
            self._agent_check.observe(self._metrics)
        self._update_alarm(self._metrics)
        self._send("alarm" if self._alarm else "data", self._metrics)

    def _look_at_web_server(self, watch: WebServerWatch) -> None:
        """Send an alarm when the web server stops listening, and a data report when it starts listening again."""
        if not watch.look():
            return
        if watch.failure:
            log.warning("%s", watch.failure)
            self._alarm = watch.failure
            self._send("alarm", {})  # without metrics: the load known before remains valid
        else:
            log.info("the web server is listening again")
            self._report()

    def _check_alarms(self) -> None:
        if self._alarm:
            return
        now = {**self._metrics, **self._sampler.quick_read(self._watched)}
        self._update_alarm(now)
        if self._alarm:
            self._send("alarm", now)

    def _update_alarm(self, metrics: Mapping[str, float]) -> None:
        before, self._overload = self._overload, alarm_reason(self._options.alarms, metrics)
        self._alarm = (self._watch.failure if self._watch else "") or self._overload
        if self._overload and not before:
            log.warning("overloaded: %s", self._overload)
        elif before and not self._overload:
            log.info("no longer overloaded")

    def _send(self, kind: Kind, metrics: Mapping[str, float]) -> None:
        if not (self._options.collectors or self._options.bus.servers):
            return
        self._seq += 1
        report = Report(
            host=self._options.name,
            boot=self._boot,
            seq=self._seq,
            time=time.time(),
            interval=self._options.interval,
            metrics=metrics,
            kind=kind,
            alarm=self._alarm if kind == "alarm" else "",
            pool=self._options.pool,
            addresses=self._options.addresses,
        )
        self._sender.send(encode(report, self._key))

    def _reload(self) -> None:
        """Read the configuration file and the key file again, and resolve the collectors' names again.

        If a file is invalid, the agent keeps its old options and its old key.
        """
        self._state.reloading()
        self._sender.resolve_again()
        try:
            options = self._changed_options()
        except LbdnsError as error:
            what = "; ".join(str(error).splitlines())
            log.error("keeping the old configuration, because it could not be reloaded: %s", what)
            options = self._options
        try:
            key = load_signing_key(options.key_file, options.name)
        except LbdnsError as error:
            log.error("keeping the old key, because the key file could not be reloaded: %s", error)
        else:
            if options == self._options:
                self._key = key
            else:
                self._host = reopen_host(self._host, self._options, options)
                self._sender.close()
                self._use(options, key)
            log.info("reloaded")
        self._state.ready()

    def _changed_options(self) -> AgentOptions:
        """Return the options in the configuration file, except those that need a restart. Raises LbdnsError."""
        if self._reread is None:
            return self._options
        options = self._reread()
        for name in RESTART_ONLY:
            if getattr(options, name) != getattr(self._options, name):
                log.warning("a change of %s takes effect after a restart", name.replace("_", "-"))
        return replace(options, **{name: getattr(self._options, name) for name in RESTART_ONLY})


def _open_page(options: AgentOptions, alarm: Callable[[], str]) -> TextPage | None:
    """Return the text page, or None if it is switched off. Raises LbdnsError if its port cannot be used."""
    if not options.serve:
        return None
    from lbdns_agent.text_page.text_page import TextPage  # costs memory, which most agents can save

    return TextPage(options.serve, alarm)


def _open_bus(options: AgentOptions) -> BusPublisher | None:
    """Return the publisher of reports, or None if there is no bus. Raises LbdnsError if its files are unusable."""
    if not options.bus.servers:
        return None
    from lbdns_agent.bus.bus_publisher import BusPublisher  # costs memory, which most agents can save

    subject = report_subject(options.pool, options.name)
    return BusPublisher(options.bus, subject, f"lbdns-agent {options.name}")


def run(options: AgentOptions, reread: Callable[[], AgentOptions] | None = None) -> int:
    """Run an agent and return its exit status. Raises LbdnsError if the agent can't start.

    On SIGHUP, the agent calls ``reread`` for its new options.
    """
    signals = SignalPipe()
    try:
        return ReportingAgent(options, signals, reread).run()
    finally:
        signals.close()
