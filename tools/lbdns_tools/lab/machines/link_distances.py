"""Describes how far clients, DNS server and web hosts are from each other, and applies the distances to a lab's links.

Reports are the only packets that a web host sends to the DNS server, so they can have further delays and losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.emulated_links import EmulatedLinks, LinkCondition

#: The kinds of machines between which there is a distance
KINDS: Final = ("client", "dns", "web")


@dataclass(frozen=True, slots=True)
class LinkDistances:
    """A round trip between clients, DNS server and web hosts takes ``round_trip_s``, half in each direction, and each
    direction loses a share ``loss`` of the packets.

    Reports are in addition delayed by ``report_delay_s``, and a further share ``report_loss`` of them is lost.
    """

    round_trip_s: float = 0.0
    loss: float = 0.0
    report_delay_s: float = 0.0
    report_loss: float = 0.0

    def condition(self, sender: str, receiver: str) -> LinkCondition:
        """Return the condition of the packets from one kind of machine to another."""
        delay_s, loss = self.round_trip_s / 2, self.loss
        if (sender, receiver) == ("web", "dns"):
            delay_s, loss = delay_s + self.report_delay_s, loss + (1 - loss) * self.report_loss
        return LinkCondition(delay_s, loss)

    def links(self, machines: Mapping[str, LabMachine]) -> Iterator[tuple[LabMachine, list[LabMachine], LinkCondition]]:
        """Yield each sender with the machines to which it sends under the same condition. Links without delay and loss
        are left out."""
        for sender, receiver in permutations(KINDS, 2):
            condition = self.condition(sender, receiver)
            if condition == LinkCondition():
                continue
            receivers = [machine for machine in machines.values() if machine.kind == receiver]
            for machine in machines.values():
                if machine.kind == sender:
                    yield machine, receivers, condition

    def apply(self, links: EmulatedLinks, machines: Mapping[str, LabMachine]) -> None:
        """Apply the distances to the links of a lab. Raises LbdnsError."""
        for sender, receivers, condition in self.links(machines):
            links.set(sender, receivers, condition)
