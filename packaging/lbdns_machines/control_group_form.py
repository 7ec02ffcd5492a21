"""The form of a run that boots a virtual machine, and compares the agent's metrics with control groups of version 2."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

from lbdns_machines import guest_measurements
from lbdns_machines.control_group_checks import CHECKS
from lbdns_machines.host_check import HostError, check_host
from lbdns_machines.machine_run import make_archive
from lbdns_machines.step_report import StepReport
from lbdns_machines.time_limit import TimeLimitReached, time_limit
from lbdns_machines.virtual_machine import check_programs, run_in_virtual_machine
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem
from lbdns_packaging.source_tree import empty_folder, version

NAME: Final = "control-groups"
_AGENT: Final = "agent.deb"
_SCRIPT: Final = f"dpkg --install {_AGENT} >&2\nsystemctl start dbus apache2\npython3 guest_measurements.py\necho\n"
_LONGEST_PREPARATION: Final = 20 * 60.0  # seconds
#: What the agent's package requires, a kernel, and a web server
ROOT: Final = RootFileSystem(
    "bookworm",
    (
        "systemd-sysv", "linux-image-cloud-amd64", "udev", "kmod", "dbus", "python3", "python3-msgpack", "adduser",
        "apache2",
    ),
)  # fmt: skip


def check_control_groups(cache: Path, packages: Path, out: Path, report: StepReport) -> None:
    """Boot the virtual machine, and record each check as a step of ``report``.

    The folder ``packages`` contains the agent's package. The new folder ``out`` gets the
    console's log and what was measured. Raises HostError if the host cannot run the machine, and RunAbortedError.
    """
    check_host()
    check_programs()
    package = packages / f"lbdns-agent_{version()}-1_all.deb"
    empty_folder(out)
    try:
        with time_limit(_LONGEST_PREPARATION, "preparing the root file system"):
            make_archive(report, ROOT, cache)
    except TimeLimitReached as error:  # says nothing about lbdns
        raise HostError(str(error)) from None
    measured: dict[str, Any] = {}

    def measure() -> None:
        if not package.exists():
            raise PackagingError(f"{package} not found: run 'make packages' as root")
        root = ROOT.unpack(cache, out / "root")
        try:
            script = Path(guest_measurements.__file__)
            files = {_AGENT: package, script.name: script}
            text = run_in_virtual_machine(root, _SCRIPT, files, out)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        (out / "measured.json").write_text(text)
        measured.update(json.loads(text))

    report.run("measure in a virtual machine", measure, essential=True)
    for name, check in CHECKS.items():
        report.run(name, partial(check, measured))
