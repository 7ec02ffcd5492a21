"""Watches a scaled farm: its servers, the connections of draining servers, and the members named in answers."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from lbdns.client.dns_client import ask, make_query
from lbdns.client.http_client import fetch
from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.scaled_farm import ScaledFarm
from lbdns_tools.scaler.running.status_server import STATUS_PATH

LOOK: Final = 0.1  # seconds between two looks
_A: Final = 1  # record type
_AFTER: Final = ("stopping", "stopped", "deleting")  # states after draining


@dataclass(frozen=True, slots=True)
class Removal:
    """One server that has been drained. Its connections are counted in the kernel's tables every 0.1 s."""

    name: str
    most: int  # connections at the same time while it was draining
    last: int  # connections when the scaler began to stop the server


class FarmWatch:
    """Records changes in the scaler's status, in the answers and in the kernel's tables. Times are Unix seconds."""

    def __init__(self, farm: ScaledFarm) -> None:
        self._farm = farm
        self.status: dict[str, Any] = {}
        self.most = 0  # servers in service at the same time
        self.removals: list[Removal] = []
        self.wanted_at: float | None = None  # when the scaler first wanted more than one server
        self.named_at: float | None = None  # when an answer first named another server than the first
        self._draining: dict[str, Removal] = {}
        self._first = ""

    @property
    def in_service(self) -> int:
        """The number of servers in service now."""
        return int(self.status.get("counts", {}).get("in service", 0))

    @property
    def has_shrunk(self) -> bool:
        """Whether one server is in service, and no other is being drained."""
        return self.in_service == 1 and not self._draining

    def look(self) -> None:
        """Read the scaler's status, count the draining servers' connections, and query the DNS server."""
        with contextlib.suppress(LbdnsError):
            self.status = json.loads(self._farm.near(lambda: fetch(self._farm.scaler, STATUS_PATH)))
        self.most = max(self.most, self.in_service)
        servers = self.status.get("servers", ())
        for server in servers:
            self._look_at(server)
        for name in self._draining.keys() - {server["name"] for server in servers}:
            del self._draining[name]  # it was deleted between two looks, so its last connections are unknown
        if self.wanted_at is None and (self.status.get("wanted") or 0) > 1:
            self.wanted_at = time.time()
        if self.named_at is None:
            self._ask()

    def _look_at(self, server: dict[str, Any]) -> None:
        name, state = server["name"], server["state"]
        before = self._draining.get(name)
        if state == "draining" or (before and state in _AFTER):
            address = next(iter(server["addresses"]), "")
            count = self._farm.connections(name, address) if address else None
            now = before or Removal(name, 0, 0)
            if count is not None:
                now = replace(now, most=max(now.most, count), last=count)
            self._draining[name] = now
        if state != "draining" and name in self._draining:
            removal = self._draining.pop(name)
            if state in _AFTER:  # otherwise, the server has returned to service
                self.removals.append(removal)

    def _ask(self) -> None:
        query = make_query("best.hobbit")
        with contextlib.suppress(LbdnsError):
            answer = self._farm.near(lambda: ask(query, self._farm.dns, timeout=LOOK, tries=1))
            names = [str(record.rdata) for record in answer.message.rr if record.rtype == _A]
            self._first = self._first or "".join(names[:1])
            if names and names[0] != self._first:
                self.named_at = time.time()

    def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Observe the farm until ``condition`` is true. Raises LbdnsError if ``condition`` is not true within
        ``seconds``, or if a process ends.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            if condition():
                return
            if ending := self._farm.programs.first_end():
                raise LbdnsError(f"{ending} before this happened: {what}")
            time.sleep(LOOK)
        raise LbdnsError(f"still not true after {seconds:g} s: {what}; the scaler's status: {self.status}")
