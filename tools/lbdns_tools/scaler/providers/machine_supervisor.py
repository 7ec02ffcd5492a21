"""Runs one local machine: ``python -m lbdns_tools.scaler.providers.machine_supervisor FOLDER``.

A supervisor waits for the boot delay, starts the web server and the agent, and stops both when it receives a signal.
The supervisor runs in its own session. If it is killed, its child processes end, too.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

from lbdns.demo.child_processes import ChildProcesses
from lbdns.process.stop_signals import StopSignals, stop_signals
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.providers.loopback_host import LoopbackHost
from lbdns_tools.scaler.providers.machine_folder import KEY_FILE, LocalMachine, MachineFolder, Progress, start_time
from lbdns_tools.scaler.providers.provider import ProviderError

_POLL: Final = 0.1  # seconds between checks of the children
INJECTED: Final = "injected failure: the name matches fail_boot"


def supervise(folder: MachineFolder) -> None:
    """Run the machine until a signal arrives or one of its processes ends."""
    with stop_signals() as stop:
        pid = os.getpid()
        progress = Progress(pid, start_time(pid))
        folder.write_progress(progress)
        if folder.request().wanted != "running":
            return  # requested before this process could receive a signal
        machine = folder.machine()
        if stop.wait(machine.boot_delay):
            return
        failure = INJECTED if machine.boot_fails else _run(folder, machine, progress, stop)
        if failure:
            folder.write_progress(Progress(progress.pid, progress.start_time, failure=failure))


def _run(folder: MachineFolder, machine: LocalMachine, progress: Progress, stop: StopSignals) -> str:
    """Run the processes until a signal arrives.

    If the processes end earlier, return the reason; otherwise, return an empty string.
    """
    with contextlib.ExitStack() as stack:
        host = LoopbackHost(machine)
        if machine.lab:
            # Only here, since the lab's modules would double the memory that other supervisors use
            from lbdns_tools.scaler.providers.lab_host import lab_host

            try:
                host = stack.enter_context(lab_host(machine))
            except LbdnsError as error:
                return str(error)
        # The agents stop first, so that the collector receives their last reports
        servers, agents = stack.enter_context(ChildProcesses()), stack.enter_context(ChildProcesses())
        servers.start("the web server", host.web_server())
        agents.start("the agent", host.agent(folder.path / KEY_FILE))
        folder.write_progress(Progress(progress.pid, progress.start_time, booted=True))
        while not stop.wait(_POLL):
            if ended := servers.first_end() or agents.first_end():
                return f"{ended}: {folder.last_line()}"
    return ""


def main() -> None:
    folder = MachineFolder(Path(sys.argv[1]))
    try:
        supervise(folder)
    except ProviderError as error:
        sys.exit(f"machine {folder.name}: {error}")


if __name__ == "__main__":
    main()
