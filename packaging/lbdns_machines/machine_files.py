"""Writes the files that make a root file system one particular machine: name, address, resolver, services, ssh keys."""

from __future__ import annotations

import shutil
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from lbdns_machines.machine_plans import GATEWAY, NETWORK, OPTIONAL_SERVICES, MachinePlan

_UNITS: Final = "/lib/systemd/system"
_ENABLED: Final = {
    "multi-user.target.wants": "systemd-networkd.service",
    "network-online.target.wants": "systemd-networkd-wait-online.service",
}


def write_machine_files(root: Path, plan: MachinePlan, ssh_key: Path) -> None:
    """Turn the root file system ``root`` into the machine of ``plan``.

    Root on each machine can log in to every other machine with ``ssh_key``, a private key with its ``.pub`` beside it.
    """
    for name, text in machine_files(plan).items():
        path = root / name
        path.unlink(missing_ok=True)
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name, target in machine_links(plan).items():
        path = root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    ssh = root / "root" / ".ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    public = ssh_key.with_suffix(".pub")
    for source, name, mode in ((ssh_key, ssh_key.name, 0o600), (public, "authorized_keys", 0o600)):
        shutil.copy(source, ssh / name)
        (ssh / name).chmod(mode)


def machine_files(plan: MachinePlan) -> dict[str, str | None]:
    """Return the files of a machine: path below the root -> contents, or None for a file to remove."""
    resolver = f"nameserver {plan.resolver}\noptions timeout:2 attempts:3\n" if plan.resolver else ""
    length = ip_network(NETWORK).prefixlen
    return {
        "etc/hostname": f"{plan.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {plan.name}\n",
        "etc/machine-id": "",
        "etc/resolv.conf": resolver,
        "etc/systemd/network/10-host0.network": (
            f"[Match]\nName=host0\n\n[Network]\nAddress={plan.address}/{length}\nGateway={GATEWAY}\n"
        ),
        # Administrators answer ssh's question about a new host; nobody is there to answer it here
        "root/.ssh/config": "StrictHostKeyChecking accept-new\nLogLevel ERROR\n",
        **plan.files,
    }


def machine_links(plan: MachinePlan) -> dict[str, str]:
    """Return the symbolic links of a machine: path below the root -> target. They enable and mask units."""
    units = "etc/systemd/system"
    links = {f"{units}/{target}/{unit}": f"{_UNITS}/{unit}" for target, unit in _ENABLED.items()}
    masked = [service for service in OPTIONAL_SERVICES if service not in plan.services]
    return links | {f"{units}/{service}.service": "/dev/null" for service in masked}
