"""The steps that upgrade, restart and downgrade a name server by apt, while a client sends queries that must all be
answered."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from lbdns_machines.farm_steps import states
from lbdns_machines.machine import Machine, MachineError
from lbdns_machines.machine_plans import NAME_SERVERS
from lbdns_machines.machine_run import MachineRun
from lbdns_machines.query_load import LoadFromMachine, describe_tally
from lbdns_packaging.newer_packages import NewerPackage, make_newer_packages, newer_packages
from lbdns_packaging.source_tree import version

QUERY_RATE: Final = 2000.0  # queries per second
_NEWER: Final = "newer"  # folder in root's home for the newer packages
_LIMIT: Final = 300.0  # seconds for one command of apt on a busy host
_INSTALL: Final = "apt-get install --yes --allow-downgrades -o Dpkg::Options::=--force-confold"
#: A line of the configuration that every step must leave as it is. Its value permits all queries of one client.
_OWN_LINE: Final = "responses_per_second = 0"
ZONE: Final = "example.org"  # of name servers that the tutorial does not configure
MEMBER: Final = "web1"
_CONFIGURE: Final = f"""\
apt-get install --yes ./{{package}}
lbdns init --zone {ZONE} --address {{address}} --member {MEMBER}=192.0.2.8 --member web2=192.0.2.9
lbdns check
systemctl restart lbdns
"""
_PREPARE: Final = f"""\
printf '\\n[rate_limit]\\n{_OWN_LINE}\\n' >> /etc/lbdns/lbdns.toml
lbdns check
systemctl reload lbdns
lbdns --version | grep -Fx 'native extension: installed'
journalctl --sync
journalctl --unit lbdns --no-pager | grep 'ready: .*, native plane'
"""


@dataclass(frozen=True)
class UpgradedServer:
    """A name server with the package ``package``: its machine, a client, a name that it answers, and a member."""

    machine: Machine
    client: Machine
    name: str
    member: str
    package: Path

    def run(self, commands: str) -> str:
        return self.machine.run(commands, limit=_LIMIT)

    def under_load(self, action: Callable[[], object]) -> str:
        """Run ``action`` while the client sends queries. Raises MachineError if one of them gets no answer, or if the
        member does not remain drained."""
        with LoadFromMachine(self.client, self.machine.address, self.name, QUERY_RATE) as load:
            began = time.monotonic()
            action()
            seconds = time.monotonic() - began
            self.expect_state()
        return f"{seconds:.1f} s; {describe_tally(load.tally)}"

    def install(self, newer: NewerPackage | None = None) -> None:
        """Install ``newer``, or the package that was built, and check that it is the installed one."""
        package = f"{_NEWER}/{newer.name}" if newer else self.package.name
        self.run(f"{_INSTALL} ./{package}")
        self.expect_version(newer)

    def expect_version(self, newer: NewerPackage | None) -> None:
        """Raise MachineError unless ``newer``, or the package that was built, is installed, and runs."""
        upstream, revision = (newer.version, newer.revision) if newer else (version(), "1")
        installed = self.run("dpkg-query --show --showformat '${Version}' lbdns")
        printed = self.run("lbdns --version")
        if not installed.startswith(f"{upstream}-{revision}~") or printed.splitlines()[0] != f"lbdns {upstream}":
            raise MachineError(
                f"{self.machine.name}: version {upstream}-{revision} must be installed, but dpkg has {installed}, and "
                f"'lbdns --version' prints:\n{printed}"
            )

    def expect_state(self) -> None:
        """Raise MachineError unless the override and the administrator's configuration are kept."""
        self.run(f"grep -Fx '{_OWN_LINE}' /etc/lbdns/lbdns.toml")
        if (state := states(self.machine).get(self.member)) != "drained":
            raise MachineError(f"{self.machine.name}: {self.member} must be drained, but is {state!r}")


def check_upgrades_alone(run: MachineRun) -> None:
    """Upgrade name servers of their own on each release of Debian, without the tutorial."""
    for name in NAME_SERVERS:
        run.report.run(f"{name}: install and configure", partial(install_server, run, run.farm[name]), essential=True)
        check_upgrades(run, name, f"www.{ZONE}", MEMBER)
    run.remove()


def install_server(run: MachineRun, machine: Machine) -> None:
    """Install the package that was built, and start a server of a zone of its own, whose web servers send no
    reports."""
    shutil.copy(run.server_package(machine), machine.root / "root")
    machine.run(_CONFIGURE.format(package=run.server_package(machine).name, address=machine.address), limit=_LIMIT)
    machine.run(f"lbdns ask www.{ZONE}")


def check_upgrades(run: MachineRun, name_server: str, name: str, member: str) -> None:
    """Upgrade, reload, restart, downgrade, and remove the package on ``name_server``; each is a step of the report.

    The client asks for ``name``; ``member`` is drained meanwhile. Afterwards, the newest version is installed, which
    writes its state in another format.
    """
    machine = run.farm[name_server]
    server = UpgradedServer(machine, run.farm["client"], name, member, run.server_package(machine))
    newer, other_format = newer_packages(version())
    steps: dict[str, Callable[[], str | None]] = {
        "prepare upgrades": lambda: prepare(server),
        "upgrade under load": lambda: server.under_load(lambda: server.install(newer)),
        "reload under load": lambda: server.under_load(lambda: server.run("systemctl reload lbdns")),
        "restart under load": lambda: server.under_load(lambda: server.run("systemctl restart lbdns")),
        "downgrade under load": lambda: server.under_load(server.install),
        "upgrade of the state format under load": lambda: server.under_load(lambda: server.install(other_format)),
        "refused downgrade under load": lambda: server.under_load(lambda: refuse_downgrade(server, other_format)),
        "removed and installed again": lambda: reinstall(server, other_format),
    }
    for what, step in steps.items():
        run.report.run(f"{name_server}: {what}", step)


def prepare(server: UpgradedServer) -> str:
    """Put the newer packages onto the machine, and drain the member."""
    made = make_newer_packages(server.package, server.machine.root / "root" / _NEWER, version())
    server.run(f"{_PREPARE}lbdns drain {server.member}")
    server.expect_state()
    return ", ".join(package.name for package in made)


def refuse_downgrade(server: UpgradedServer, installed: NewerPackage) -> None:
    """The package that was built refuses to be installed, since it cannot read the newer version's state."""
    try:
        server.run(f"{_INSTALL} ./{server.package.name}")
    except MachineError as error:
        if "reads formats up to" not in str(error):
            raise
    else:
        raise MachineError(f"{server.machine.name}: a version that cannot read the state files was installed")
    server.run('[ -z "$(dpkg --audit)" ]')
    server.expect_version(installed)


def reinstall(server: UpgradedServer, package: NewerPackage) -> None:
    """A removal keeps the state; after a new installation, the server starts at boot as before. At last, undrain the
    member."""
    server.run("apt-get remove --yes lbdns\n[ -e /var/lib/lbdns/overrides.json ]")
    server.install(package)
    server.run("systemctl is-enabled lbdns\nsystemctl start lbdns")
    server.machine.wait(lambda: server.member in states(server.machine), _LIMIT, "the server to answer")
    server.expect_state()
    server.run(f"lbdns undrain {server.member}")
