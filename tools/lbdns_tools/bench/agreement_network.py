"""Where the parts of the farm of the benchmark ``agreement`` run: on the loopback, or each in a network namespace of
its own, connected by a bridge, with links that lose packets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from lbdns_tools.bench.measured_processes import BenchmarkError, need
from lbdns_tools.lab.farm.lab_farm import HUB, NETWORK4, NETWORK6, LabMachine
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.emulated_links import EmulatedLinks, LinkCondition
from lbdns_tools.lab.machines.leftover_cleanup import new_id, record
from lbdns_tools.lab.machines.placed_machine import NAMESPACES

_Result = TypeVar("_Result")
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """The IPv4 address of a part of the farm, and its network namespace. Without a namespace, it is this machine's."""

    name: str
    address: str = LOOPBACK
    namespace: str = ""

    def command(self, *words: str) -> list[str]:
        """Return a command that runs ``words`` here. Its process ID is that of the program."""
        if not self.namespace:
            return list(words)
        return [need("nsenter", "util-linux"), f"--net={NAMESPACES / self.namespace}", "--", *words]

    def call(self, do: Callable[[], _Result]) -> _Result:
        """Call ``do`` here and return its result. Sockets that it opens remain here."""
        return network_namespaces.inside(self.namespace, do) if self.namespace else do()


class AgreementNetwork:
    """The places of a farm by name. ``lose`` is only available in namespaces."""

    def __init__(self, places: Iterable[Place], links: EmulatedLinks | None, machines: Sequence[LabMachine]) -> None:
        self.places = {place.name: place for place in places}
        self._links = links
        self._machines = {machine.name: machine for machine in machines}

    def lose(self, sender: str, receiver: str, share: float) -> None:
        """Drop this share of the packets from one place to another, from now on. Raises LbdnsError."""
        if self._links is None:
            raise BenchmarkError("packets can only be lost between network namespaces; add --namespaces")
        self._links.set(self._machines[sender], [self._machines[receiver]], LinkCondition(loss=share))


@contextlib.contextmanager
def network(names: Sequence[str], in_namespaces: bool) -> Iterator[AgreementNetwork]:
    """Yield a network with a place for each name, and remove its namespaces on exit. Raises LbdnsError."""
    if not in_namespaces:
        yield AgreementNetwork(map(Place, names), None, ())
        return
    if os.geteuid() != 0:
        raise BenchmarkError("--namespaces: creates network namespaces; run the benchmark as root")
    machines = [_machine(name, number) for number, name in enumerate((HUB, *names), 1)]
    id = new_id()
    traces = record(id)
    try:
        network_namespaces.build(id, machines)
        with EmulatedLinks(id) as links:
            places = [
                Place(each.name, each.address, network_namespaces.namespace_of(id, each.name)) for each in machines[1:]
            ]
            yield AgreementNetwork(places, links, machines)
    finally:
        traces.remove()


def _machine(name: str, number: int) -> LabMachine:
    return LabMachine(name, name if name == HUB else "web", (str(NETWORK4[number]),), str(NETWORK6[number]))
