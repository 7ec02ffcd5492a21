"""The forms of a run: the machines that exist, what is done with them, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns_machines.full_checks import check_fully
from lbdns_machines.machine_plans import FULL, QUICK, UPGRADES, MachinePlan
from lbdns_machines.machine_run import MachineRun
from lbdns_machines.quick_checks import check_quickly
from lbdns_machines.upgrade_steps import check_upgrades_alone


@dataclass(frozen=True)
class RunForm:
    """A form of a run.

    The limits are in seconds: one for the preparation, which depends on Debian's mirror and on the host, and one for
    everything, including the removal of the machines. ``builds_packages`` means that the run builds the packages that
    it installs.
    """

    plans: Sequence[MachinePlan]
    check: Callable[[MachineRun], None]
    longest_preparation: float
    longest: float
    builds_packages: bool = False


FORMS: Final = {
    "quick": RunForm(QUICK, check_quickly, 5 * 60.0, 12 * 60.0, builds_packages=True),
    "upgrades": RunForm(UPGRADES, check_upgrades_alone, 20 * 60.0, 60 * 60.0),
    "full": RunForm(FULL, check_fully, 30 * 60.0, 100 * 60.0),
}
