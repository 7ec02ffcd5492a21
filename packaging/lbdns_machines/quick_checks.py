"""The tutorial, and the checks that the quick form makes afterwards: an answer, an outage, a reboot, and removal."""

from __future__ import annotations

from functools import partial

from lbdns_machines.farm_steps import check_client_resolver, check_reboot, check_web_server_outage
from lbdns_machines.machine_run import MachineRun


def check_quickly(run: MachineRun) -> None:
    """Follow the tutorial, and check the farm; the failure of one check does not end the others."""
    run.follow_tutorial()
    run.report.run("client: answers by its own resolv.conf", partial(check_client_resolver, run.farm))
    run.report.run("gandalf: is shut down, and boots again", partial(check_web_server_outage, run.farm, "gandalf"))
    run.report.run("ns: reboot", partial(check_reboot, run.farm, "ns"))
    run.remove()
