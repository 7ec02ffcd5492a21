"""The checks that only the full form makes: delegation, load, tunnel, upgrades, rotated keys, and a clone that
joins."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import Final

from lbdns.client.http_client import STATUS_PATH
from lbdns_machines.farm_steps import (
    CLIENTS_NAME,
    LIMIT,
    await_resolved,
    await_usable,
    check_client_resolver,
    check_reboot,
    resolved,
    status_of,
)
from lbdns_machines.machine import MachineError
from lbdns_machines.machine_farm import MachineFarm
from lbdns_machines.machine_plans import DEBIAN_12, NAME_SERVERS, NGINX_FILES, MachinePlan
from lbdns_machines.machine_run import MachineRun
from lbdns_machines.upgrade_steps import MEMBER, ZONE, check_upgrades, install_server

HELD: Final = 18  # connections that keep the web server's workers busy; each web server has 20
CLONE: Final = MachinePlan("web-clone", "192.0.2.4", DEBIAN_12, ("nginx",), NGINX_FILES, is_web_server=True)
_CURL: Final = "curl --fail --silent --show-error --max-time 30 http://127.0.0.1:8053"
#: Holds connections with unfinished requests until its standard input ends, or for a minute
_HOLD: Final = """\
python3 -c '
import socket, sys, time
held = [socket.create_connection((sys.argv[1], 80), 5) for _ in range(int(sys.argv[2]))]
for each in held: each.sendall(b"GET / HTTP/1.1\\r\\n")
time.sleep(float(sys.argv[3]))
' {address} {count} {seconds} > /dev/null 2>&1 &
echo $! > /run/held.pid
"""


def check_fully(run: MachineRun) -> None:
    """Follow the tutorial, and check everything; the failure of one check does not end the others."""
    run.follow_tutorial()
    farm, report = run.farm, run.report
    names = [machine.name for machine in farm.machines.values()]
    install = partial(install_server, run, farm[NAME_SERVERS[1]])
    report.run(f"{NAME_SERVERS[1]}: install and configure", install)
    report.run("parent: delegates the zone", partial(delegate, farm, "".join(run.printed)))
    report.run("client: answers by its own resolv.conf", partial(check_client_resolver, farm))
    report.run("client: the page through the tutorial's tunnel", partial(check_tunnel, farm))
    report.run("answers avoid a loaded web server", partial(check_load, farm))
    for name in names:
        report.run(f"{name}: reboot", partial(check_reboot, farm, name))
    check_upgrades(run, NAME_SERVERS[0], CLIENTS_NAME, "gandalf")
    report.run("ns: agents report to the upgraded server", partial(await_usable, farm))
    check_upgrades(run, NAME_SERVERS[1], f"www.{ZONE}", MEMBER)
    report.run("keys are rotated", partial(check_rotation, farm))
    report.run("a clone of frodo joins", partial(check_clone, farm))
    run.remove()


def delegate(farm: MachineFarm, printed: str) -> str:
    """Put the records that ``lbdns init`` printed into the parent zone."""
    records = delegation_records(printed)
    zone = farm["parent"].root / "etc" / "bind" / "net.zone"
    zone.write_text(zone.read_text() + "".join(f"{record}\n" for record in records))
    farm["parent"].run("systemctl restart named")
    return "; ".join(records)


def delegation_records(printed: str) -> list[str]:
    """Return the records that ``lbdns init`` printed. Raises MachineError unless there are two."""
    records = re.findall(r"^\s+(\S+\.\s+(?:NS|A|AAAA)\s+\S+)$", printed, re.MULTILINE)
    if len(records) != 2:
        raise MachineError(f"'lbdns init' printed {len(records)} records for the parent zone, not two:\n{printed}")
    return records


def check_tunnel(farm: MachineFarm) -> str:
    """The status that the page shows comes through the tunnel that the tutorial opened on the client."""
    document = json.loads(farm["client"].run(f"{_CURL}{STATUS_PATH}"))
    members = [member["name"] for pool in document["pools"] for member in pool["members"]]
    farm["client"].run(f"{_CURL}/ | grep --quiet '<html'")
    return f"{len(members)} members"


def check_load(farm: MachineFarm) -> str:
    """Once the workers of the most often selected web server are busy, answers no longer name that server."""
    client = farm["client"]
    by_address = {machine.address: machine.name for machine in farm.web_servers}
    (favourite, count), *_ = Counter(resolved(client) for _ in range(20)).most_common()
    if favourite not in by_address:
        raise MachineError(f"client: {CLIENTS_NAME} is {favourite!r}, which is no web server's address")
    client.run(_HOLD.format(address=favourite, count=HELD, seconds=120))
    try:
        moved = await_resolved(farm, set(by_address) - {favourite})
    finally:
        client.run("kill $(cat /run/held.pid)", check=False)
    return f"{by_address[favourite]} was in {count} of 20 answers; then {moved}; {await_usable(farm)}"


def check_rotation(farm: MachineFarm) -> str:
    """A new master key replaces the old one as docs/tasks/sign-reports.md says; no report is rejected meanwhile."""
    ns, key = farm["ns"], "/etc/lbdns/report.key"
    ns.run(f"(lbdns keygen; cat {key}) > /root/both.key; cat /root/both.key > {key}; systemctl reload lbdns")
    for machine in farm.web_servers:
        ns.run(
            f"lbdns keygen --agent {machine.name} --master {key} |"
            f" ssh root@{machine.address} 'cat > /etc/lbdns/agent.key; systemctl restart lbdns-agent'"
        )
    await_usable(farm)
    ns.run(f"head -n 1 /root/both.key > {key}; rm /root/both.key; systemctl reload lbdns")
    usable = await_usable(farm)
    ns.run("sleep 3")  # three reports of each agent, signed with the new key alone
    await_usable(farm)
    if rejected := status_of(ns).get("reports", {}).get("rejected"):
        raise MachineError(f"ns: reports were rejected: {rejected}")
    return f"usable {usable}"


def check_clone(farm: MachineFarm) -> str:
    """A copy of a web server's disk, with its own name, address and key, joins the pool by reporting."""
    ns, original = farm["ns"], farm["frodo"]
    ns.run(
        'sed -i \'/^members = /a join = { names = "web-*", networks = ["192.0.2.0/24"] }\' /etc/lbdns/lbdns.toml\n'
        "lbdns check\nsystemctl reload lbdns"
    )
    original.power_off()
    clone = farm.clone(original, CLONE)
    (clone.root / "etc" / "lbdns" / "agent.key").unlink()  # a copy of a key would report under the original's name
    original.start()
    clone.start()
    ns.run(
        f"lbdns keygen --agent {clone.name} --master /etc/lbdns/report.key |"
        f" ssh root@{clone.address} 'umask 077; cat > /etc/lbdns/agent.key; systemctl restart lbdns-agent'"
    )
    usable = await_usable(farm)
    address = ns.run(f"dig +short @{ns.address} {clone.name}.example.net").strip()
    if address != clone.address:
        raise MachineError(f"ns: {clone.name}.example.net is {address!r}, not {clone.address}")
    seconds = ns.wait(lambda: clone.address in _answers(farm), LIMIT, f"an answer that names {clone.name}")
    return f"usable {usable}, in the answers after {seconds:.1f} s more"


def _answers(farm: MachineFarm) -> set[str]:
    """Send ten queries for the round-robin name, and return the addresses in the answers."""
    ns = farm["ns"]
    return set(
        ns.run(f"for i in 1 2 3 4 5 6 7 8 9 10; do dig +short @{ns.address} round.robin.example.net; done").split()
    )
