"""Two servers on one machine with the same ports or the same state_dir."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import THIS_VERSION, FarmPlan
from lbdns_tools.faults.waiting import wait_for
from lbdns_tools.free_ports import free_ports

REFUSED_S: Final = 20.0  # s within which a second server must end


def same_configuration(bed: FaultBed) -> None:
    """Check that a second server with the same configuration exits with an error and does not affect the first
    server."""
    bed.begin()
    second = bed.farm.run("second", *THIS_VERSION.command("serve", "-c", str(bed.farm.config)))
    ended = wait_for(lambda: not second.running, REFUSED_S)
    bed.expect(ended is not None, "a second server with the same configuration keeps running")
    bed.notes["message"] = second.last_line()
    bed.expect("Traceback" not in second.log.read_text(), "the second server exited with a traceback")
    second.stop()
    bed.ease()
    bed.keep(1.0)
    bed.expect(bed.farm.control_path.exists(), "the control socket of the first server no longer exists")
    bed.expect(bed.farm.control("overrides").get("ok"), "the first server's control socket does not answer")
    bed.recovers(bed.all_usable, "all members are usable")


def shared_port_and_state(bed: FaultBed) -> None:
    """Check that a second server with the same DNS port and state_dir does no damage."""
    report_port, http_port = free_ports(2)
    text = bed.farm.configuration().replace(f":{bed.farm.report_port}", f":{report_port}")
    text = text.replace(f":{bed.farm.http_port}", f":{http_port}").replace('"control.sock"', '"second.sock"')
    config = bed.folder / "second.toml"
    config.write_text(text)
    bed.begin()
    second = bed.farm.run("second", *THIS_VERSION.command("serve", "-c", str(config)))
    wait_for(lambda: not second.running, 4.0)
    bed.notes["second runs"] = second.running
    bed.notes["message"] = second.last_line()
    reply = bed.farm.control("weight", member="frodo", factor=0.5)
    bed.expect(reply["kept"], "the first server cannot save overrides while the second server runs")
    bed.keep(6.0)
    second.stop()
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable")
    bed.load.stop()
    bed.farm.server.stop()
    overrides = json.loads((bed.farm.state / "overrides.json").read_text())["overrides"]
    bed.expect(len(overrides) == 1, f"overrides.json must contain one override, but contains {len(overrides)}")
    with sqlite3.connect(bed.farm.state / "history.db") as history:
        (result,) = history.execute("PRAGMA integrity_check").fetchone()
    bed.expect(result == "ok", f"history.db is damaged: {result}")


FAULTS: Final = (
    Fault("sharing.same-configuration", "a second server starts with the same configuration (2 workers)",
          "the second server exits with an error; the first server is unaffected", same_configuration, Limits(),
          quick=True),
    Fault("sharing.same-configuration-alone", "a second server starts with the same configuration (one worker)",
          "the second server exits with an error; the first server is unaffected", same_configuration, Limits(),
          FarmPlan(workers=1)),
    Fault("sharing.state-dir",
          "a second server starts with the same DNS port and state_dir, but with different ports for reports and page",
          "no query is lost, and no answer is wrong; overrides and history stay intact", shared_port_and_state,
          Limits()),
)  # fmt: skip
