"""Writes the files of the scaler's demo: both configurations, the zone, the key and the load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.keys import new_master_key

LOOPBACK: Final = "127.0.0.1"
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
    maximum: int = 8
    seconds: float = 180.0
    log_level: str = "error"

    @property
    def load_seconds(self) -> float:
        """The duration of the load. Afterwards, the last servers are drained."""
        return self.seconds - 20.0


def write(plan: ScalerDemoPlan, folder: Path) -> None:
    """Write all files into the private directory ``folder``."""
    key = folder / "report.key"
    key.touch(0o600, exist_ok=False)
    key.write_text(f"{new_master_key().line()}\n", "ascii")
    (folder / "hobbit.zone").write_text(_ZONE)
    (folder / "lbdns.toml").write_text(_server(plan))
    (folder / "scaler.toml").write_text(_scaler(plan))
    (folder / "load.csv").write_text("\n".join(["requests_per_s", *(f"{rate:.2f}" for rate in rates(plan))]) + "\n")


def rates(plan: ScalerDemoPlan) -> list[float]:
    """Return the rates of the load, which has the shape of the 2014 load. Each rate applies for the same time."""
    per_session = (plan.highest - plan.lowest) / max(SHAPE_2014)
    return [plan.lowest + per_session * sessions for sessions in SHAPE_2014]


_ZONE: Final = f"""\
$TTL 1h
@  IN SOA ns.hobbit. hostmaster.hobbit. ( 1 1h 15m 1w 5m )
   IN NS  ns.hobbit.
ns    A   {LOOPBACK}
"""


def _server(plan: ScalerDemoPlan) -> str:
    return f"""\
[server]
listen = ["{LOOPBACK}:{plan.dns_port}"]
state_dir = "state"
control = "control.sock"

[[zone]]
name = "hobbit"
file = "hobbit.zone"

[[pool]]
name = "web"
zone = "hobbit"
join = {{ names = "web-*", networks = ["{NETWORK}"], max = {plan.maximum * 4}, leave_after = "15s" }}

[collector]
listen = ["{LOOPBACK}:{plan.report_port}"]
key_file = "report.key"

[web]
listen = "{LOOPBACK}:{plan.http_port}"
scaler = "http://{LOOPBACK}:{plan.scaler_port}"
"""


def _scaler(plan: ScalerDemoPlan) -> str:
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
url = "http://{LOOPBACK}:{plan.http_port}"
control = "control.sock"

[probe]
port = {plan.web_port}

[benchmark]
seconds = 0.3
clients = 2
path = "/work?ms=1"

[times]
resolvers = "3s"

[provider]
kind = "processes"
folder = "servers"
network = "{NETWORK}"
port = {plan.web_port}
quota = {plan.maximum + 2}
boot_delay = "2s"
collectors = ["{LOOPBACK}:{plan.report_port}"]
key_file = "report.key"
pool = "web"

[policy.queue]
wait_p95 = 0.2
delay_in = "15s"
billing_period = "0"
"""
