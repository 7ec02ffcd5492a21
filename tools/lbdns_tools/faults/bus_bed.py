"""A farm whose reports come over a cluster of three nats-servers, with relays that can cut its connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.background_thread import background_thread
from lbdns_tools.faults.families.storage_faults import mount
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.stream_relay import StreamRelay
from lbdns_tools.faults.waiting import wait_for
from lbdns_tools.nats_servers import COLLECTOR, NatsServers

NODES: Final = (0, 1, 2)
SERVER: Final = "server"  # the DNS server with the built-in collector, among the programs that use the bus
READY_S: Final = 30.0  # s within which all reports come over the bus, and JetStream has elected its leaders
WATCH_S: Final = 0.1  # s between two looks at the ages of the reports


class BusBed:
    """The bus of a farm. Use it through ``on_bus``.

    ``nodes`` maps programs (SERVER or a member) to the numbers of the nats-servers that they may use; the default is
    all. If ``relayed`` is set, a relay stands on each way: between each program and each nats-server, and from each
    nats-server to each other one.
    """

    def __init__(
        self, bed: FaultBed, nats: NatsServers, nodes: Mapping[str, Sequence[int]], relayed: bool, shared: bool
    ) -> None:
        self.bed, self.farm, self.nats = bed, bed.farm, nats
        self.passwords: dict[str, str] = {}  # of programs that use another password than the right one
        self._nodes, self._shared = nodes, shared
        self._links: dict[tuple[str, int], StreamRelay] = {}
        self._routes: dict[tuple[int, int], StreamRelay] = {}
        if relayed:
            self._add_relays()

    def _add_relays(self) -> None:
        enter = self.bed.resources.enter_context
        for node in self.nats.nodes:
            for program in (SERVER, *MEMBERS):
                self._links[program, node.number] = enter(StreamRelay(node.port))
            for other in self.nats.nodes:
                if other is not node:
                    relay = self._routes[node.number, other.number] = enter(StreamRelay(other.route_port))
                    node.others[other.number] = relay.port

    def urls(self, program: str) -> list[str]:
        user = COLLECTOR if program == SERVER else program
        found = []
        for number in self._nodes.get(program, NODES):
            link = self._links.get((program, number))
            found.append(self.nats.url(number, user, self.passwords.get(program, ""), link.port if link else 0))
        return found

    def configure(self) -> None:
        """Write the server's section [bus], and reload. Raises LbdnsError."""
        urls = ", ".join(f'"{url}"' for url in self.urls(SERVER))
        shared = f"share_overrides = true\noverride_copies = {len(NODES)}\n" if self._shared else ""
        self.farm.bus = f"[bus]\nurl = [{urls}]\n{shared}"
        self.farm.write_files()
        self.farm.control("reload")

    def start_agent(self, name: str) -> None:
        """Start a member's agent, which publishes to the bus only."""
        self.farm.start_agent(name, collector=(), bus=self.urls(name), pool="web")

    def start(self) -> None:
        """Start the nats-servers and the agents, and wait until everything works. Raises LbdnsError."""
        self.nats.start()
        self.configure()
        for name in MEMBERS:
            self.start_agent(name)
        if wait_for(self.works, READY_S, WATCH_S) is None:
            raise LbdnsError(f"the bus does not work after {READY_S:g} s: {self.state()}")

    def state(self) -> dict[str, Any]:
        """Return what the server's status document shows about the bus."""
        status = self.farm.status()
        return {"bus": status.get("reports", {}).get("bus"), "overrides": status.get("shared_overrides")}

    def is_connected(self) -> bool:
        return bool((self.state()["bus"] or {}).get("connected"))

    def problem(self) -> str:
        """Return why the server has no connection to the bus, or an empty string if it has one."""
        return str((self.state()["bus"] or {}).get("problem", ""))

    def works(self) -> bool:
        """Return whether all members are usable, and all orders are shared."""
        return self.bed.all_usable() and self.is_shared()

    def is_shared(self) -> bool:
        """Return whether the server has stored all its orders in the bucket, if it shares them."""
        overrides = self.farm.status().get("shared_overrides", {"connected": False})
        return not self._shared or (overrides["connected"] and not overrides["pending"])

    def server_node(self) -> int:
        """Return the number of the nats-server that the server uses. Raises LbdnsError if it uses none."""
        port = int((self.state()["bus"] or {}).get("server", "").rpartition(":")[2] or 0)
        for node in self.nats.nodes:
            link = self._links.get((SERVER, node.number))
            if port in (node.port, link.port if link else 0):
                return node.number
        raise LbdnsError("the server is not connected to the bus")

    def links(self, *programs: str, nodes: Iterable[int] = NODES) -> list[StreamRelay]:
        """Return the relays between programs (default: all) and these nats-servers."""
        return [self._links[program, number] for program in programs or (SERVER, *MEMBERS) for number in nodes]

    def routes(self, number: int) -> list[StreamRelay]:
        """Return the relays between a nats-server and the others."""
        return [relay for ends, relay in self._routes.items() if number in ends]

    def accepted(self) -> float:
        return self.farm.metric("lbdns_bus_reports_total", result="accepted")

    def rejected(self) -> dict[str, float]:
        """Return the numbers of reports from the bus by the reason why they were rejected."""
        counts: dict[str, float] = (self.state()["bus"] or {}).get("counts", {})
        return {reason: count for reason, count in counts.items() if reason != "accepted"}


@contextmanager
def on_bus(
    bed: FaultBed, *, nodes: Mapping[str, Sequence[int]] | None = None, relayed: bool = False, shared: bool = False,
    small_disks: bool = False,
) -> Iterator[BusBed]:  # fmt: skip
    """Start three nats-servers, connect the server to them, and start agents that publish to them only.

    ``shared``: the server shares its overrides in a bucket with three copies. ``small_disks``: JetStream stores its
    files on separate small disks. The farm must have no other agents. Raises LbdnsError.
    """
    folder = bed.folder / "bus"
    folder.mkdir()
    nats = NatsServers(folder, tuple(MEMBERS), len(NODES), jetstream=shared)
    for node in nats.nodes if small_disks else ():
        node.store.mkdir()
        mount(node.store)
    bus = BusBed(bed, nats, nodes or {}, relayed, shared)
    with nats:
        bus.start()
        yield bus


class ReportWatch:
    """Records for the duration of a with statement how old the newest report of each member becomes, in seconds."""

    def __init__(self, bed: FaultBed) -> None:
        self.oldest: dict[str, float] = {}
        self._bed = bed
        self._thread = background_thread("report-watch", self._run)

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.__exit__(None, None, None)

    @property
    def late_s(self) -> float:
        """The seconds by which a report was late."""
        return round(max(self.oldest.values(), default=0.0) - self._bed.farm.plan.interval, 2)

    def _run(self, over: threading.Event) -> None:
        while not over.wait(WATCH_S):
            for name, member in self._bed.farm.members().items():
                self.oldest[name] = max(self.oldest.get(name, 0.0), member["age_s"] or 0.0)


def hold(relays: Iterable[StreamRelay], is_cut: bool) -> float:
    """Cut or restore the connections through ``relays``, and return the monotonic time."""
    for relay in relays:
        relay.is_cut = is_cut
    return time.monotonic()
