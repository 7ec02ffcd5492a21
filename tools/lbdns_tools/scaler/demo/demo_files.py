"""Writes the files of the scaler's demo: both configurations, the zone, the key and the load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.demo.farm_files import LOOPBACK, SOA, server_config, write_private
from lbdns_shared.keys import new_master_key

__all__ = ["LOOPBACK", "ScalerDemoPlan", "rates", "write"]

NETWORK: Final = "127.0.1.0/24"  # of the web servers
#: Sessions/s of each minute of the load that the reactive scaler of 2014 followed, without its idle beginning and end
SHAPE_2014: Final = (1, 1, 4, 14, 25, 45, 72, 132, 98, 66, 29, 22, 22, 20, 1)


@dataclass(frozen=True, slots=True)
class ScalerDemoPlan:
    """The ports and the load of one demo. All ports are on the loopback interface. Rates are in requests/s."""

    dns_port: int = 5300
    report_port: int = 7777
    http_port: int = 8053
    scaler_port: int = 8054
    web_port: int = 8080
    lowest: float = 4.0
    highest: float = 50.0
    capacity: float = 10.0  # requests/s that one server may get; low, so that the demo needs little CPU time
    seconds: float = 180.0
    log_level: str = "error"

    @property
    def maximum(self) -> int:
        """The maximum number of servers in service: three more than the highest load needs."""
        return math.ceil(self.highest / self.capacity) + 3

    @property
    def load_seconds(self) -> float:
        """The duration of the load. Afterwards, the last servers are drained."""
        return self.seconds - 20.0


def write(plan: ScalerDemoPlan, folder: Path) -> None:
    """Write all files into the private directory ``folder``."""
    write_private(folder / "report.key", new_master_key().line())
    (folder / "hobbit.zone").write_text(f"{SOA}ns A {LOOPBACK}\n")
    (folder / "lbdns.toml").write_text(_server(plan))
    (folder / "scaler.toml").write_text(scaler_config(plan, _loopback_place(plan)))
    write_load(plan, folder)


def write_load(plan: ScalerDemoPlan, folder: Path) -> None:
    """Write the rates of the load to ``load.csv``."""
    (folder / "load.csv").write_text("\n".join(["requests_per_s", *(f"{rate:.2f}" for rate in rates(plan))]) + "\n")


def rates(plan: ScalerDemoPlan) -> list[float]:
    """Return the rates of the load, which has the shape of the 2014 load. Each rate applies for the same time."""
    per_session = (plan.highest - plan.lowest) / max(SHAPE_2014)
    return [plan.lowest + per_session * sessions for sessions in SHAPE_2014]


def _server(plan: ScalerDemoPlan) -> str:
    most = plan.maximum * 4
    join = f'join = {{ names = "web-*", networks = ["{NETWORK}"], max = {most}, leave_after = "15s" }}'
    config = server_config(plan.dns_port, plan.report_port, plan.http_port, join)
    return f'{config}scaler = "http://{LOOPBACK}:{plan.scaler_port}"\n'


@dataclass(frozen=True, slots=True)
class FarmPlace:
    """The addresses of a farm's collector, and the provider from which the scaler gets the farm's servers."""

    url: str  # the collector's HTTP interface
    control: str  # the collector's control socket
    benchmark: str  # a page that needs little CPU time
    provider: str  # the kind of provider, and the keys that only this kind has, in TOML
    collector: str  # ADDRESS:PORT for reports
    key_file: str


def _loopback_place(plan: ScalerDemoPlan) -> FarmPlace:
    return FarmPlace(
        url=f"http://{LOOPBACK}:{plan.http_port}",
        control="control.sock",
        benchmark="/work?ms=1",
        provider=f'kind = "processes"\nnetwork = "{NETWORK}"\nport = {plan.web_port}',
        collector=f"{LOOPBACK}:{plan.report_port}",
        key_file="report.key",
    )


def scaler_config(plan: ScalerDemoPlan, place: FarmPlace) -> str:
    """Return the text of scaler.toml for a farm that follows the demo's load."""
    return f"""\
[scaler]
farm = "web"
policy = "queue"
minimum = 1
maximum = {plan.maximum}
spares = 1
period = "2s"
capacity = {plan.capacity:g}
state_dir = "scaler"
listen = "{LOOPBACK}:{plan.scaler_port}"

[front_end]
pool = "web"
url = "{place.url}"
control = "{place.control}"

[probe]
port = {plan.web_port}

[benchmark]
seconds = 0.3
clients = 2
path = "{place.benchmark}"

[times]
resolvers = "3s"

[provider]
{place.provider}
folder = "servers"
quota = {plan.maximum + 2}
boot_delay = "2s"
collectors = ["{place.collector}"]
key_file = "{place.key_file}"
pool = "web"

[policy.queue]
wait_p95 = 0.2
delay_in = "15s"
billing_period = "0"
"""
