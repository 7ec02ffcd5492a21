"""The checks that both forms make: answers, members' states, outages, reboots and removal. Each is a step of a
report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from lbdns_machines.machine import Machine, MachineError
from lbdns_machines.machine_farm import MachineFarm

CLIENTS_NAME: Final = "www.example.net"  # of the tutorial
LIMIT: Final = 60.0  # seconds in which the farm must react; it takes one or two on an idle host
USABLE: Final = "usable"


def status_of(ns: Machine) -> dict[str, Any]:
    """Return the server's status document. Raises MachineError if the server does not answer."""
    document: dict[str, Any] = json.loads(ns.run("lbdns status --json"))
    return document


def states(ns: Machine) -> dict[str, str]:
    """Return the state of each member, or nothing if the server does not answer."""
    try:
        document = status_of(ns)
    except MachineError:
        return {}
    return {member["name"].split(".")[0]: member["state"] for pool in document["pools"] for member in pool["members"]}


def await_state(farm: MachineFarm, names: list[str], wanted: Callable[[str], bool], what: str) -> str:
    """Wait until ``wanted`` accepts the state of each member in ``names``; return how long it took."""
    ns = farm["ns"]

    def as_wanted() -> bool:
        current = states(ns)
        return all(wanted(current.get(name, "")) for name in names)

    seconds = ns.wait(as_wanted, LIMIT, f"{', '.join(names)} to be {what}")
    return f"after {seconds:.1f} s"


def await_usable(farm: MachineFarm, *names: str) -> str:
    """Wait until the members in ``names`` are usable, or, without names, all web servers; return how long it took."""
    wanted = list(names) or [machine.name for machine in farm.web_servers]
    return await_state(farm, wanted, lambda state: state == USABLE, USABLE)


def resolved(client: Machine, name: str = CLIENTS_NAME) -> str:
    """Resolve ``name`` on the client, with its resolv.conf, and return the address, or an empty string if there is
    none."""
    words = client.run(f"getent ahostsv4 {name} || true").split()
    return words[0] if words else ""


def await_resolved(farm: MachineFarm, addresses: set[str]) -> str:
    """Wait until the client resolves the clients' name to one of ``addresses`` ten times in a row; return the last
    address."""
    client = farm["client"]
    last = ""

    def only_these() -> bool:
        nonlocal last
        for _ in range(10):
            last = resolved(client)
            if last not in addresses:
                return False
        return True

    seconds = client.wait(only_these, LIMIT, f"{CLIENTS_NAME} to be one of {', '.join(sorted(addresses))}")
    return f"{last} after {seconds:.1f} s"


def check_client_resolver(farm: MachineFarm) -> str:
    """A program on the client resolves the clients' name to the address of a web server that reports."""
    return await_resolved(farm, {machine.address for machine in farm.web_servers})


def check_web_server_outage(farm: MachineFarm, name: str) -> str:
    """A web server that is shut down leaves the rotation, and returns after its next boot."""
    farm[name].power_off()
    left = await_state(farm, [name], lambda state: state not in (USABLE, ""), "out of rotation")
    farm[name].start()
    return f"out {left}, back {await_usable(farm, name)}"


def check_reboot(farm: MachineFarm, name: str) -> str:
    """After a reboot, a machine resumes its work by itself: all web servers are usable, and the client gets an
    answer."""
    farm[name].reboot()
    return f"usable {await_usable(farm)}, answers {check_client_resolver(farm)}"


def check_removal(farm: MachineFarm, package: str, names: list[str]) -> str:
    """Purging a package leaves nothing behind: no file named after lbdns, no user, no unit."""
    for name in names:
        machine = farm[name]
        machine.run(f"rm -f {package}_*.deb lbdns*.deb; apt-get purge --yes {package}")
        left = machine.run("find / -xdev -name '*lbdns*'; getent passwd | grep lbdns || true; ls -d /etc/lbdns || true")
        left = "\n".join(line for line in left.splitlines() if "cannot access" not in line)
        if left:
            raise MachineError(f"{name}: a purge of {package} leaves behind:\n{left}")
    return ", ".join(names)
