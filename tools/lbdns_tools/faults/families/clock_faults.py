"""Clock faults: the clock of the server or of one member steps forwards or backwards by an hour.

libfaketime changes the wall-clock time that a single process reads. The machine's clock and the monotonic clock remain
unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.requirements import faketime_library

#: Contains a sitecustomize.py for programs with a faked clock
CLOCK_FOLDER: Final = Path(__file__).parents[1] / "faked_clock"
HOUR: Final = 3600
VICTIM: Final = "frodo"


def faked(path: Path) -> Mapping[str, str]:
    """Return the environment of a process whose clock is off by the number of seconds in the file ``path``."""
    step(path, 0)
    return {
        "LD_PRELOAD": faketime_library() or "", "FAKETIME_TIMESTAMP_FILE": str(path), "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1", "NO_FAKE_STAT": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(CLOCK_FOLDER), os.environ.get("PYTHONPATH")))),
    }  # fmt: skip


def step(path: Path, seconds: int) -> None:
    """Shift the clocks of all processes that read ``path`` by ``seconds``."""
    new = path.with_suffix(".new")
    new.write_text(f"{seconds:+d}\n")
    new.replace(path)


def server_clock_steps(seconds: int) -> Callable[[FaultBed], None]:
    def run(bed: FaultBed) -> None:
        offset = bed.folder / "clock"
        bed.farm.server.stop()
        bed.farm.environment = faked(offset)
        bed.farm.start_server()
        bed.awaits(bed.all_usable, "all members are usable after the restart", 15)
        bed.awaits(bed.answers, "queries are answered after the restart", 15)
        bed.begin()
        step(offset, seconds)
        bed.awaits(bed.fails_open, "the pool fails open, because all reports seem to be an hour off", 6)
        bed.expect(
            bed.farm.metric("lbdns_reports_total", result="clock"),
            "the collector did not reject any report because of its timestamp",
        )
        bed.keep(2.0)
        step(offset, 0)
        bed.ease()
        bed.recovers(bed.all_usable, "all members are usable", 6)
        bed.expect(bed.is_healthy(), "/healthz does not respond with 200")

    return run


def agent_clock_steps(seconds: int) -> Callable[[FaultBed], None]:
    def run(bed: FaultBed) -> None:
        offset = bed.folder / "clock"
        bed.farm.agents[VICTIM].stop()
        bed.farm.agent_environment = faked(offset)
        bed.farm.start_agent(VICTIM)
        bed.awaits(bed.all_usable, "all members are usable after the agent's restart", 15)
        begin = bed.begin()
        step(offset, seconds)
        bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", 6)
        bed.keep(2.0)
        bed.forbid(VICTIM, begin + 5.0, bed.ease())
        step(offset, 0)
        bed.recovers(bed.all_usable, "all members are usable", 6)

    return run


_SERVER: Final = (
    "no query is lost, and no answer is wrong; the pool fails open; members return after the clock is corrected"
)
_AGENT: Final = "only the member with the wrong clock leaves rotation, and it returns after the clock is corrected"
FAULTS: Final = tuple(
    Fault(f"clock.{side}-{name}", f"the clock of {whose} steps {name} by 1 h and is later corrected", holds,
          run(seconds), Limits(recover_s=6), quick=(side, name) == ("server", "back"), needs=("faketime",))
    for side, whose, holds, run in (
        ("server", "the server", _SERVER, server_clock_steps), ("agent", "one member", _AGENT, agent_clock_steps),
    )
    for name, seconds in (("forward", HOUR), ("back", -HOUR))
)  # fmt: skip
