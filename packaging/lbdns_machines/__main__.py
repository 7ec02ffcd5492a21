"""``python -m lbdns_machines`` installs the packages on booted machines, and uses them; the Makefile runs it."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from lbdns_machines.control_group_form import NAME as CONTROL_GROUPS
from lbdns_machines.control_group_form import check_control_groups
from lbdns_machines.debian_12_packages import build_debian_12_packages
from lbdns_machines.host_check import HostError, check_host
from lbdns_machines.machine_farm import FILES_LIMIT, INTERRUPTIONS, STOP_LIMIT, MachineFarm
from lbdns_machines.machine_run import FAILURES, MachineRun
from lbdns_machines.run_forms import FORMS, RunForm
from lbdns_machines.step_report import RunAbortedError, StepReport
from lbdns_machines.time_limit import TimeLimitReached, time_limit
from lbdns_packaging.source_tree import ROOT

CACHE: Final = ROOT / "build" / "packaging"
EPILOG: Final = (
    "Exit status: 0 if every step succeeded, or if this host cannot boot even its own systemd as a machine or is too "
    "slow to prepare the machines, in which case one line gives the reason; 1 if a step failed or the run took too "
    "long; 130 if it was interrupted."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lbdns_machines", description=__doc__, epilog=EPILOG)
    what = (
        "quick: one name server and one web server; upgrades: only upgrades; full: all; "
        f"{CONTROL_GROUPS}: only the agent, in a virtual machine with control groups of version 2"
    )
    parser.add_argument("form", choices=sorted({*FORMS, CONTROL_GROUPS}), help=what)
    parser.add_argument("--packages", type=Path, default=ROOT / "dist",
                        help="folder of the packages to install; quick builds its own (default: dist)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "machines", help="folder for logs and report.json")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    report = StepReport(FAILURES, show=lambda line: print(line, flush=True))
    for number in INTERRUPTIONS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    packages: Path = options.packages.resolve()
    try:
        if options.form == CONTROL_GROUPS:
            check_control_groups(CACHE / "roots", packages, out, report)
        else:
            run_form(FORMS[options.form], packages, out, report)
    except HostError as error:
        print(f"machines: skipped: {' '.join(str(error).split())}")
        return 0
    except RunAbortedError as error:
        print(f"machines: the later steps need this one: {error}")
    except TimeLimitReached as error:
        report.add_failure("time limit", str(error))
    except KeyboardInterrupt:
        print("machines: interrupted; all machines have been stopped")
        return 130
    (out / "report.json").write_text(report.to_json())
    print(f"\n{report.table()}\n{out / 'report.json'}")
    return 1 if report.failed else 0


def run_form(form: RunForm, packages: Path, out: Path, report: StepReport) -> None:
    """Run ``form``, and record its steps in ``report``; logs are written to the new folder ``out``.

    Raises HostError if this host cannot boot machines, or is too slow to prepare them. Also raises RunAbortedError and
    TimeLimitReached.
    """
    check_host()
    began = time.monotonic()
    with MachineFarm(form.plans, CACHE / "roots", out) as farm:
        run = MachineRun(farm, CACHE / "quick-packages" if form.builds_packages else packages, report)
        try:
            with time_limit(form.longest_preparation, "preparing machines and packages"):
                run.boot(form.plans, CACHE / "roots")
                if form.builds_packages:
                    build = partial(build_debian_12_packages, run.packages, CACHE / "quick")
                    report.run("build the packages for Debian 12", build, essential=True)
        except TimeLimitReached as error:  # says nothing about lbdns
            raise HostError(str(error)) from None
        end = began + form.longest - STOP_LIMIT - FILES_LIMIT
        with time_limit(end - time.monotonic(), "the rest of the run"):
            form.check(run)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
