"""The agent at work: samples at a fixed cadence, reports, alarms at once, a farewell at the end."""

from __future__ import annotations

import gc
import logging
import random
import time
from collections.abc import Mapping
from typing import Final

from lbdns.errors import LbdnsError
from lbdns.report import Kind, Report, encode
from lbdns_agent.asides import Asides
from lbdns_agent.cadence import Cadence
from lbdns_agent.cgroup.find import find_group
from lbdns_agent.gateway.ping import Pinger
from lbdns_agent.gateway.route import Gateway, find_gateway
from lbdns_agent.host import Host
from lbdns_agent.kernel_file import Proc
from lbdns_agent.options import Options
from lbdns_agent.overload import overload
from lbdns_agent.sample import Sampler
from lbdns_agent.send import CALM, Collectors
from lbdns_agent.signals import STOP, Signals
from lbdns_agent.signing import load_key
from lbdns_agent.webserver.server import WebServer
from lbdns_agent.webserver.status import StatusPage

PATIENCE: Final = 0.25  # seconds, and of an interval, that a report waits for the answers of others
NAMES_PATIENCE: Final = 1.0  # seconds that the first report waits for the collectors' names

log = logging.getLogger("lbdns.agent")


def look_at(options: Options) -> Host:
    """What the sensors are to look at. Raises ConfigError for a cgroup that isn't there."""
    status = StatusPage(options.status) if options.status else None
    gateway = options.gateway
    pinger = None
    if gateway is not None:
        pinger = Pinger((lambda: gateway) if isinstance(gateway, Gateway) else find_gateway)
    return Host(
        proc=Proc(),
        group=find_group(options.cgroup),
        status=status,
        web=WebServer(lambda: status.addresses, status.url.endpoint.port) if status else None,
        pinger=pinger,
    )


class Agent:
    """One agent, from its start to its farewell."""

    def __init__(self, options: Options, signals: Signals) -> None:
        """Raises LbdnsError for a key file or a cgroup that can't be used."""
        self._options = options
        self._signals = signals
        self._key = load_key(options.key_file, options.name)
        self._asides = Asides(signals.fd)
        self._sampler = Sampler(look_at(options), self._asides)
        self._collectors = Collectors(options.collectors, max(CALM, 2 * options.interval))
        self._boot = random.getrandbits(64)
        self._seq = 0
        self._metrics: dict[str, float] = {}
        self._alarm = ""
        self._watched = frozenset(condition.metric for condition in options.alarms)

    def run(self) -> int:
        """Report until a signal ends it; the exit status."""
        options = self._options
        self._announce()
        self._sample()  # what the first report's differences are taken from
        self._collectors.wait_for_names(NAMES_PATIENCE)
        gc.freeze()  # what is there now stays: the collector need not walk over it again and again
        # At a phase of their own, the agents of a farm don't all report in the same moment
        cadence = Cadence(time.monotonic() + random.random() * options.interval, options.interval)
        due = wake = cadence.first
        while True:
            if self._asides.wait(wake) and self._told_to_stop():
                return 0
            now = time.monotonic()
            if now >= due:
                self._report()
                due = cadence.next_after(time.monotonic())
            elif now >= wake:
                self._watch()
            wake = cadence.watch_after(time.monotonic(), due) if self._watched and self._metrics else due

    def _told_to_stop(self) -> bool:
        """Do what the signals say; whether that was to stop."""
        for number in self._signals.take():
            if number in STOP:
                self._send("bye", {})
                self._collectors.close()
                log.info("stopped")
                return True
            self._reload()
        return False

    def _announce(self) -> None:
        options = self._options
        log.info(
            "reporting as %s every %g s to %s, %s",
            options.name,
            options.interval,
            ", ".join(map(str, options.collectors)),
            f"signed with key {self._key.key_id.hex()}" if self._key else "unsigned",
        )

    def _sample(self) -> Mapping[str, float]:
        interval = self._options.interval
        return self._sampler.sample(min(PATIENCE, PATIENCE * interval), interval).metrics

    def _report(self) -> None:
        """The report that is due: an alarm for as long as the host is overloaded."""
        self._metrics = dict(self._sample())
        self._judge(self._metrics)
        self._send("alarm" if self._alarm else "data", self._metrics)

    def _watch(self) -> None:
        """Between two reports: an alarm at once when an overload begins."""
        if self._alarm:
            return
        now = self._metrics | self._sampler.glance(self._watched)
        self._judge(now)
        if self._alarm:
            self._send("alarm", now)

    def _judge(self, metrics: Mapping[str, float]) -> None:
        before, self._alarm = self._alarm, overload(self._options.alarms, metrics)
        if self._alarm and not before:
            log.warning("overloaded: %s", self._alarm)
        elif before and not self._alarm:
            log.info("no longer overloaded")

    def _send(self, kind: Kind, metrics: Mapping[str, float]) -> None:
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
        )
        self._collectors.send(encode(report, self._key))

    def _reload(self) -> None:
        """SIGHUP: the key file is read again and the collectors' names looked up; a bad file changes nothing."""
        self._collectors.resolve_again()
        try:
            self._key = load_key(self._options.key_file, self._options.name)
        except LbdnsError as error:
            log.error("the key file is not reloaded, the old key stays: %s", error)
        else:
            log.info("reloaded")


def run(options: Options) -> int:
    """Run an agent; the exit status. Raises LbdnsError when it can't start."""
    signals = Signals()
    try:
        return Agent(options, signals).run()
    finally:
        signals.close()
