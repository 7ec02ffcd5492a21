"""Faults in the agents' reports to the collector, and in the keys that protect the reports."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Final

from lbdns_shared.keys import new_master_key
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.report_relay import ReportRelay
from lbdns_tools.faults.waiting import wait_for

VICTIM: Final = "frodo"
BACK_S: Final = 6.0


@contextlib.contextmanager
def relayed(bed: FaultBed) -> Iterator[ReportRelay]:
    """Restart the agents with a relay as their collector, and wait until all members are usable again."""
    with ReportRelay(bed.farm.report_port, bed.chance) as relay:
        bed.farm.agent_port = relay.port
        for name, agent in list(bed.farm.agents.items()):
            agent.stop()
            bed.farm.start_agent(name)
        bed.awaits(bed.all_usable, "all members are usable with the relay", 15)
        yield relay


def reports_lost(share: float) -> Callable[[FaultBed], None]:
    def run(bed: FaultBed) -> None:
        with relayed(bed) as relay:
            bed.begin()
            relay.loss = share
            bed.keep(6.0 if bed.quick else 20.0)
            relay.loss = 0.0
            bed.ease()
            bed.recovers(bed.all_usable, "all members are usable", BACK_S)
            bed.expect(relay.dropped, "the relay dropped no report")

    return run


def reports_reordered(bed: FaultBed) -> None:
    with relayed(bed) as relay:
        bed.begin()
        relay.delay = 2.5
        end = time.monotonic() + (6.0 if bed.quick else 15.0)
        while time.monotonic() < end:
            bed.keep(0.5)
            bed.expect(bed.all_usable(), "a member was not usable, although its reports arrived within 3 s")
        bed.expect(bed.farm.metric("lbdns_reports_total", result="replay"), "no report was counted as a replay")
        relay.delay = 0.0
        bed.ease()
        bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def reports_duplicated(bed: FaultBed) -> None:
    with relayed(bed) as relay:
        bed.begin()
        relay.duplicates = 1.0
        bed.keep(5.0)
        bed.expect(bed.all_usable(), "not all members are usable while every report arrives twice")
        bed.expect(bed.farm.metric("lbdns_reports_total", result="replay"), "no report was counted as a replay")
        relay.duplicates = 0.0
        bed.ease()
        bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def replayed_after_restart(bed: FaultBed) -> None:
    """Check that, after a member's bye report, replaying its earlier reports does not return it to rotation."""
    with relayed(bed) as relay:
        bed.keep(3.0)
        bed.farm.agents[VICTIM].stop()
        bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent after its bye report", 3)
        bed.keep(1.5)  # sequences may be a second old in state_dir
        bed.begin()
        bed.farm.server.stop()
        bed.farm.start_server(wait=False)
        bed.recovers(lambda: len(bed.farm.usable()) == 2, "the other members are usable", 10)
        restarted = bed.ease()
        relay.replay()
        returned = wait_for(lambda: VICTIM in bed.farm.usable(), 2.0)
        bed.expect(returned is None, f"replayed reports made {VICTIM} usable again after its bye report")
        bed.forbid(VICTIM, restarted + 0.2, time.monotonic())
        bed.farm.start_agent(VICTIM)
        bed.recovers(bed.all_usable, "all members are usable", 10)


def write_keys(bed: FaultBed) -> None:
    (bed.folder / "report.key").write_text("".join(key.line() + "\n" for key in bed.farm.keys))


def keys_rotated(bed: FaultBed) -> None:
    farm = bed.farm
    bed.begin()
    old = farm.keys[0]
    farm.keys = [new_master_key(), old]
    write_keys(bed)
    bed.expect(farm.control("reload").get("ok"), "the reload with the old and the new key failed")
    for name in MEMBERS:
        farm.agents[name].stop(signal.SIGTERM)
        farm.start_agent(name)
        bed.awaits(bed.all_usable, f"{name} is usable with the new key", BACK_S)
    farm.keys = farm.keys[:1]
    write_keys(bed)
    bed.expect(farm.control("reload").get("ok"), "the reload without the old key failed")
    bed.ease()
    bed.keep(4.0)
    bed.expect(
        farm.metric("lbdns_reports_total", result="bad_tag") == 0, "reports were rejected during the key rotation"
    )
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def wrong_key(bed: FaultBed) -> None:
    farm = bed.farm
    begin = bed.begin()
    good, farm.keys = farm.keys, [new_master_key()]
    farm.agents[VICTIM].stop(signal.SIGKILL)
    farm.start_agent(VICTIM)
    bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", 6)
    bed.keep(1.0)
    bed.forbid(VICTIM, begin + 5.0, bed.ease())
    bed.expect(farm.metric("lbdns_reports_total", result="bad_tag"), "no report was counted as bad_tag")
    farm.keys = good
    farm.agents[VICTIM].stop()
    farm.start_agent(VICTIM)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


_NOTHING: Final = "no query is lost, and no answer is wrong"
FAULTS: Final = (
    Fault("report.lost-10", "10 % of the reports are lost", f"{_NOTHING}; all members are usable afterwards",
          reports_lost(0.1)),
    Fault("report.lost-50", "50 % of the reports are lost", f"{_NOTHING}; all members are usable afterwards",
          reports_lost(0.5), quick=True),
    Fault("report.reordered", "reports arrive out of order, each with a random delay of up to 2.5 s",
          "no member becomes silent", reports_reordered, farm=FarmPlan(collector="stale_after = 6\n")),
    Fault("report.duplicated", "every report arrives twice", "the second copy of a report is counted as a replay",
          reports_duplicated),
    Fault("report.replayed", "an agent sends a bye report; the server restarts; recorded reports are replayed",
          "the member stays out of rotation", replayed_after_restart, Limits(1500, 1500, recover_s=12), quick=True),
    Fault("report.keys-rotated", "the server also accepts a new key; agents switch one by one; the old key is removed",
          "no report is rejected", keys_rotated, Limits(recover_s=6)),
    Fault("report.wrong-key", "an agent uses a wrong key for a while",
          "the member leaves rotation until the agent uses the right key; reports with the wrong key are counted",
          wrong_key, Limits(recover_s=6)),
)  # fmt: skip
