"""One case measured in a lab: load from its client hosts, every machine sampled meanwhile, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from lbdns_tools.lab.addresses import Machine
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.sampling import Counted, Sampler
from lbdns_tools.load.crew import LoadPlace
from lbdns_tools.load.measure import InterruptedRunError, Measuring
from lbdns_tools.load.output import Row
from lbdns_tools.load.plan import Run
from lbdns_tools.load.progress import Progress
from lbdns_tools.load.study import Planned


class ClientHost(Protocol):
    """A machine that load comes from, as far as it is used here."""

    @property
    def machine(self) -> Machine: ...

    def command(self, *argv: str) -> tuple[str, ...]: ...


class MeasuredLab(Protocol):
    """A lab, as far as it is used here."""

    @property
    def machines(self) -> Mapping[str, Machine]: ...

    @property
    def groups(self) -> Mapping[str, Counted]: ...

    def clients(self) -> Sequence[ClientHost]: ...

    def status(self) -> Mapping[str, Any]: ...


def measure(
    lab: MeasuredLab,
    case: Case,
    planned: Planned,
    repetition: int = 1,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Do a planned run from the lab's client hosts.

    Shares in the outcome go by machines' names instead of addresses; ``answers`` are those of the warm-up too, and
    empty where nobody asks for a name. Raises LbdnsError, and KeyboardInterrupt: half a run is no result.
    """
    places = tuple(LoadPlace(client.command(), client.machine.addresses4) for client in lab.clients())
    before = answers(lab.status()) if case.resolve else {}
    with Sampler(lab.groups) as sampler:
        try:
            row = Measuring(0, places, on_progress).measure(planned, repetition)
        except InterruptedRunError:
            raise KeyboardInterrupt from None
        samples = sampler.between(*counted(planned.run, row))
    after = answers(lab.status()) if case.resolve else {}
    given = {name: count - before.get(name, 0) for name, count in after.items()}
    return Outcome(case, by_name(row, lab.machines), samples, given)


def counted(run: Run, row: Row) -> tuple[float, float]:
    """The Unix times from which and until which requests that count were sent."""
    begin = (row.begun or 0.0) + run.warm_up_s
    window = run.seconds - run.warm_up_s
    by_requests = any(phase.load.requests for phase in run.phases)
    # What was sent in time may be answered late, and then figures.seconds is longer than the load was there
    length = min(window, row.figures.seconds) if by_requests or math.isinf(window) else window
    return begin, begin + length


def answers(status: Mapping[str, Any]) -> dict[str, int]:
    """How often each member has been handed out, of the status document, over all pools."""
    found: dict[str, int] = {}
    for pool in status["pools"]:
        for member in pool["members"]:
            found[member["name"]] = found.get(member["name"], 0) + int(member["answers"])
    return found


def by_name(row: Row, machines: Mapping[str, Machine]) -> Row:
    """The row with shares by the names of machines; an address that is none of theirs stays."""
    names = {address: name for name, machine in machines.items() for address in (*machine.addresses4, machine.address6)}
    shares = {names.get(address, address): share for address, share in row.figures.shares.items()}
    return replace(row, figures=replace(row.figures, shares=shares))
