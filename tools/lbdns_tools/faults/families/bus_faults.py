"""Faults in a bus of three nats-servers that carries all reports and the shared overrides."""

from __future__ import annotations

import signal
import time
from typing import Final

from lbdns_tools.faults.bus_bed import NODES, SERVER, BusBed, ReportWatch, hold, on_bus
from lbdns_tools.faults.bus_flood import RATE as FLOOD_RATE
from lbdns_tools.faults.bus_flood import REASONS as FLOOD_REASONS
from lbdns_tools.faults.bus_flood import BusFlood
from lbdns_tools.faults.families.storage_faults import fill
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.nats_servers import PROGRAM

VICTIM: Final = "frodo"
LATE_S: Final = 2.0  # s by which a report may be late after the death of one nats-server
SILENT_S: Final = 4.5  # s after which a member must be silent: 3 intervals after its last report, and a margin
BACK_S: Final = 5.0  # s within which reports must be back: 2 s for the connections, 1 s for the next report, a margin
ROUTED_S: Final = 10.0  # s within which nats-servers that were cut off from each other are connected again
ELECTED_S: Final = 20.0  # s within which JetStream has a leader again, and the server has stored its orders
SLOW: Final = 20_000.0  # octets/s, a fraction of the flood
MOST_ORDERS: Final = 50  # more than the last page of a full disk has room for
#: All agents use the bus, so the faults start them
PLAN: Final = FarmPlan(agents=())


def expect_order(bed: FaultBed, factor: float, is_shared: bool) -> None:
    """Change a member's weight, and check whether the reply states that the order counts on this server only."""
    reply = bed.farm.control("weight", member=VICTIM, factor=factor)
    is_local = any("counts here only" in note for note in reply["notes"])
    bed.expect(is_local != is_shared, f"the reply to an order has the notes {reply['notes']}")


def expect_timely(bed: FaultBed, watch: ReportWatch) -> None:
    bed.notes["late_s"] = watch.late_s
    bed.expect(watch.late_s <= LATE_S, f"a report was {watch.late_s} s late; the limit is {LATE_S:g} s")


def keeps_on(bus: BusBed, seconds: float) -> None:
    """Let the fault last, and check that all members stay usable, and that more reports arrive."""
    before = bus.accepted()
    bus.bed.keep(seconds)
    bus.bed.expect(bus.bed.all_usable(), f"not all members are usable: {bus.state()}")
    bus.bed.expect(bus.accepted() > before, "no report arrives over the bus")


def node_killed(bed: FaultBed) -> None:
    with on_bus(bed, shared=True) as bus:
        number = bus.server_node()
        with ReportWatch(bed) as watch:
            bed.begin()
            bus.nats.kill(number)
            keeps_on(bus, 4.0 if bed.quick else 8.0)
        expect_timely(bed, watch)
        bed.awaits(bus.is_shared, "the server is connected to the bucket again", ELECTED_S)
        expect_order(bed, 0.5, is_shared=True)
        bed.ease()
        bus.nats.start(number)
        bed.recovers(bus.works, "everything works", BACK_S)


def node_hung(bed: FaultBed) -> None:
    """The kernel of a stopped server still acknowledges what the server's clients send."""
    with on_bus(bed) as bus:
        number = bus.server_node()
        with ReportWatch(bed) as watch:
            bed.begin()
            bus.nats.signal(number, signal.SIGSTOP)
            keeps_on(bus, 8.0)
            bed.ease()
            bus.nats.signal(number, signal.SIGCONT)
            keeps_on(bus, 3.0)
        expect_timely(bed, watch)
        bed.recovers(bus.works, "everything works", BACK_S)


def node_unreachable(bed: FaultBed) -> None:
    with on_bus(bed, relayed=True) as bus:
        number = bus.server_node()
        relays = bus.links(nodes=[number]) + bus.routes(number)
        with ReportWatch(bed) as watch:
            bed.begin()
            hold(relays, is_cut=True)
            keeps_on(bus, 8.0)
            bed.ease()
            hold(relays, is_cut=False)
            keeps_on(bus, 3.0)
        expect_timely(bed, watch)
        bed.recovers(bus.works, "everything works", BACK_S)


def all_killed(bed: FaultBed) -> None:
    with on_bus(bed, shared=True) as bus:
        bed.begin()
        for number in NODES:
            bus.nats.kill(number)
        bed.awaits(bed.fails_open, "the pool fails open", SILENT_S + 2.0)
        expect_order(bed, 0.5, is_shared=False)
        bed.expect(bed.is_healthy(), "/healthz does not respond with 200 without the bus")
        bus.nats.start()
        back = bed.ease()
        bed.recovers(bed.all_usable, "all members are usable", BACK_S)
        bed.notes["usable_after_s"] = round((bed.recovered_at or back) - back, 2)
        bed.awaits(bus.is_shared, "the server stores the order that was given without the bus", ELECTED_S)


def agent_cut(bed: FaultBed) -> None:
    with on_bus(bed, relayed=True) as bus:
        relays = bus.links(VICTIM)
        begin = bed.begin()
        hold(relays, is_cut=True)
        bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", SILENT_S)
        bed.keep(6.0)
        bed.forbid(VICTIM, begin + SILENT_S, bed.ease())
        hold(relays, is_cut=False)
        bed.recovers(bus.works, "all members are usable", BACK_S)


def server_cut(bed: FaultBed) -> None:
    with on_bus(bed, relayed=True, shared=True) as bus:
        relays = bus.links(SERVER)
        bed.begin()
        hold(relays, is_cut=True)
        bed.awaits(lambda: not bus.is_connected(), "the status shows that the connection is lost", SILENT_S)
        bed.awaits(bed.fails_open, "the pool fails open", SILENT_S)
        expect_order(bed, 0.5, is_shared=False)
        bed.expect(bed.is_healthy(), "/healthz does not respond with 200 without the bus")
        bed.keep(3.0)
        bed.ease()
        hold(relays, is_cut=False)
        bed.recovers(bed.all_usable, "all members are usable", BACK_S)
        bed.awaits(bus.is_shared, "the server stores the order that was given meanwhile", ELECTED_S)


def nodes_parted(bed: FaultBed) -> None:
    """One nats-server is cut off from the two others. One agent uses it; the server and the other agents do not."""
    others = (1, 2)
    nodes = dict.fromkeys((SERVER, *bed.farm.plan.hosts), others) | {VICTIM: (0,)}
    with on_bus(bed, nodes=nodes, relayed=True, shared=True) as bus:
        relays = bus.routes(0)
        begin = bed.begin()
        hold(relays, is_cut=True)
        bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", SILENT_S)
        bed.expect(len(bed.farm.usable()) == len(NODES) - 1, "a member on the server's side is not usable")
        bed.awaits(bus.is_shared, "the server is connected to the bucket", ELECTED_S)
        expect_order(bed, 0.5, is_shared=True)
        bed.keep(4.0)
        bed.forbid(VICTIM, begin + SILENT_S, bed.ease())
        hold(relays, is_cut=False)
        bed.recovers(bus.works, "all members are usable", ROUTED_S)


def credentials_wrong(bed: FaultBed) -> None:
    with on_bus(bed) as bus:
        begin = bed.begin()
        bus.passwords = {VICTIM: "wrong", SERVER: "wrong"}
        bed.farm.agents[VICTIM].stop(signal.SIGKILL)
        bus.start_agent(VICTIM)
        bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", SILENT_S)
        bed.keep(1.0)
        bed.forbid(VICTIM, begin + SILENT_S, time.monotonic())  # later, the pool fails open
        bus.configure()
        bed.awaits(lambda: "refuses the credentials" in bus.problem(), "the status shows the refusal", 3.0)
        bed.awaits(bed.fails_open, "the pool fails open", SILENT_S)
        bed.expect(bed.is_healthy(), "/healthz does not respond with 200 without the bus")
        bus.passwords = {}
        bed.farm.agents[VICTIM].stop()
        bus.start_agent(VICTIM)
        bed.ease()
        bus.configure()
        bed.recovers(bus.works, "all members are usable", BACK_S)


def flooded(bed: FaultBed) -> None:
    with on_bus(bed) as bus:
        with BusFlood(bus.nats, VICTIM, bed.farm.keys[0], bed.chance) as flood:
            before, began = bus.accepted(), bed.begin()
            with ReportWatch(bed) as watch:
                keeps_on(bus, 4.0 if bed.quick else 10.0)
            accepted, seconds = bus.accepted() - before, time.monotonic() - began
        bed.ease()
        bed.recovers(bus.works, "all members are usable", BACK_S)
        expect_timely(bed, watch)
        bed.notes |= {"published": flood.published, "rejected": bus.rejected()}
        bed.expect(flood.published > seconds * FLOOD_RATE / 2, f"the flood had only {flood.published} messages")
        most = len(bed.farm.plan.hosts) * (seconds / bed.farm.plan.interval + 2)
        bed.expect(accepted <= most, f"{accepted:g} reports were accepted, but the agents sent at most {most:g}")
        for reason in FLOOD_REASONS:
            bed.expect(bus.rejected().get(reason), f"no report was rejected because of {reason}")


def consumer_slow(bed: FaultBed) -> None:
    """The network to the server carries less than the agents publish, so nats-servers drop its connections."""
    with on_bus(bed, relayed=True) as bus:
        bed.begin()
        with BusFlood(bus.nats, VICTIM, bed.farm.keys[0], bed.chance):
            for relay in bus.links(SERVER):
                relay.rate = SLOW
            bed.keep(10.0)
            bed.expect(bed.is_healthy(), "/healthz does not respond with 200")
            for relay in bus.links(SERVER):
                relay.rate = 0.0
            bed.ease()
            bed.recovers(bus.works, "all members are usable, although the flood goes on", ROUTED_S)


def store_full(bed: FaultBed) -> None:
    with on_bus(bed, shared=True, small_disks=True) as bus:
        bed.begin()
        fillers = [fill(node.store) for node in bus.nats.nodes]
        for order in range(MOST_ORDERS):
            if bed.farm.control("weight", member=VICTIM, factor=0.5 + order / 100)["notes"]:
                break
        bed.notes["orders"], bed.notes["state"] = order, bus.state()
        bed.expect(not bus.is_shared(), "the disks are full, but the status states that all orders are stored")
        keeps_on(bus, 4.0)
        bed.ease()
        for number, filler in enumerate(fillers):
            filler.unlink()
            bus.nats.kill(number)  # JetStream stays off after a failed write
            bus.nats.start(number)
        bed.recovers(bus.works, "the server stores its order", ELECTED_S)


_ANSWERED: Final = "no query is lost, and no answer is wrong"
_TIMELY: Final = f"{_ANSWERED}; all reports arrive with a delay of at most {LATE_S:g} s; all members stay usable"
_KNOWN: Final = f"{_ANSWERED}; the pool fails open; an order counts on this server, and is stored when the bus is back"
_NEEDS: Final = (PROGRAM,)
_LIMITS: Final = Limits(recover_s=BACK_S)
FAULTS: Final = (
    Fault("bus.node-killed", "the nats-server that the server uses is killed; two others remain",
          f"{_TIMELY}; orders are still shared", node_killed, Limits(recover_s=ELECTED_S), PLAN,
          needs=_NEEDS),
    Fault("bus.node-hung", "the nats-server that the server uses is stopped for 8 s (SIGSTOP)", _TIMELY, node_hung,
          _LIMITS, PLAN, needs=_NEEDS),
    Fault("bus.node-unreachable", "no byte reaches or leaves the nats-server that the server uses for 8 s", _TIMELY,
          node_unreachable, _LIMITS, PLAN, needs=_NEEDS),
    Fault("bus.all-killed", "all three nats-servers are killed, and started again when no member is usable", _KNOWN,
          all_killed, _LIMITS, PLAN, needs=_NEEDS),
    Fault("bus.agent-cut", "an agent is cut off from all nats-servers", f"{_ANSWERED}; the member leaves rotation",
          agent_cut, _LIMITS, PLAN, needs=_NEEDS),
    Fault("bus.server-cut", "the server is cut off from all nats-servers", _KNOWN, server_cut, _LIMITS, PLAN,
          needs=_NEEDS),
    Fault("bus.nodes-parted", "a nats-server that one agent uses is cut off from the two others",
          f"{_ANSWERED}; only that agent's member leaves rotation; orders are still shared", nodes_parted,
          Limits(recover_s=ELECTED_S), PLAN, needs=_NEEDS),
    Fault("bus.flooded", f"an agent publishes {FLOOD_RATE:g} garbled, forged and repeated reports/s",
          f"{_TIMELY}; no such report is accepted", flooded, _LIMITS, PLAN, needs=_NEEDS),
    Fault("bus.consumer-slow", f"an agent floods the bus, and only {SLOW / 1000:g} kB/s reach the server for 10 s",
          f"{_ANSWERED}; all members are usable afterwards, although the flood goes on", consumer_slow,
          Limits(recover_s=ROUTED_S), PLAN, needs=_NEEDS),
    Fault("bus.store-full", "the disks of JetStream are full; later there is room, and the nats-servers are restarted",
          f"{_ANSWERED}; all members stay usable; orders count on this server, and are stored afterwards", store_full,
          Limits(recover_s=ELECTED_S), PLAN, needs=(*_NEEDS, "mounts")),
    Fault("bus.credentials-wrong", "an agent, and then also the server, uses a wrong password",
          f"{_ANSWERED}; the member leaves rotation, and then the pool fails open", credentials_wrong, _LIMITS, PLAN,
          needs=_NEEDS),
)  # fmt: skip
