"""lbdns-scaler with real processes: servers follow the load, no request fails, and no kill leaves an orphan."""

from __future__ import annotations

import json
import random
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.demo.run_demo import remove_servers
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running

LIMIT = 180.0  # s: a busy machine starts and stops servers slowly
JOIN = 'join = { names = "web-*", networks = ["127.0.0.0/8"], max = 50, leave_after = "5s" }'
SCALER = """\
[scaler]
farm = "web"
policy = "{policy}"
minimum = 1
maximum = 4
spares = 1
period = "1s"
look = "0.2s"
capacity = 10
state_dir = "{folder}/scaler"
listen = "127.0.0.1:{status}"
[front_end]
url = "http://127.0.0.1:{http}"
control = "{folder}/control.sock"
[probe]
port = {web}
[benchmark]
seconds = 0.2
path = "/work?ms=1"
[times]
resolvers = "1s"
quiet = "1s"
[provider]
kind = "processes"
folder = "{folder}/servers"
network = "{network}"
port = {web}
quota = 6
boot_delay = "0.5s"
collectors = ["127.0.0.1:{reports}"]
key_file = "{folder}/report.key"
pool = "web"
"""


class ScaledFarm:
    """A server whose pool hosts may join, and a scaler that is started and stopped at will."""

    def __init__(self, folder: Path, policy: str, settings: str) -> None:
        self.site: Site = new_site(folder, {"gandalf": ["127.0.0.18"]})
        self.site.write(pool=JOIN)
        self.config = folder / "scaler.toml"
        self.status_port, self.web_port = free_ports(2)
        network = f"127.{random.randrange(20, 250)}.{random.randrange(250)}.0/24"
        values = {
            "policy": policy, "folder": folder, "status": self.status_port, "http": self.site.http_port,
            "web": self.web_port, "network": network, "reports": self.site.report_port,
        }  # fmt: skip
        self.config.write_text(SCALER.format(**values) + settings)

    def command(self, *words: str) -> tuple[str, ...]:
        return python("lbdns_tools.scaler", *words, "-c", str(self.config))

    def status(self) -> dict[str, Any]:
        """Return the scaler's status, or {} if it does not respond."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/api/v1/scaler", timeout=30) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except OSError:
            return {}

    def counts(self) -> dict[str, int]:
        """Return the number of servers in each state that has any."""
        return {state: count for state, count in self.status().get("counts", {}).items() if count}

    def machines(self) -> set[str]:
        """Return the names of the machines that exist."""
        return {path.name for path in (self.config.parent / "servers").glob("web-*")}


@pytest.fixture
def farm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ScaledFarm]:
    found = ScaledFarm(tmp_path, *request.param)
    with serving(found.site):
        try:
            yield found
        finally:
            remove_servers(found.config)


FIXED = ("fixed", "[policy.fixed]\nservers = 2\n")
QUEUE = ("queue", '[policy.queue]\nwait_p95 = 0.2\ndelay_in = "4s"\nbilling_period = "0"\n')


@pytest.mark.parametrize("farm", [FIXED], indirect=True)
def test_kills_leave_no_orphan_and_no_double(farm: ScaledFarm) -> None:
    chance = random.Random(7)
    for _ in range(8):
        program = Program(farm.command("run"))
        try:
            program.until(farm.status, "it runs")
            pause = chance.uniform(0.0, 1.5)
            with pytest.raises(AssertionError, match="not within"):
                eventually(lambda: False, "the moment of the kill", seconds=pause)
            program.stop(signal.SIGKILL)
        finally:
            program.close()
    with running(*farm.command("run")) as program:
        program.until(lambda: farm.counts() == {"in service": 2}, "two servers serve, and no other exists", LIMIT)
        assert len(farm.machines()) == 2

        def both_usable() -> bool:
            members = farm.site.members_by_name()
            return sum(bool(member["joined"] and member["state"] == "usable") for member in members.values()) == 2

        eventually(both_usable, "both are usable members")


@pytest.mark.parametrize("farm", [QUEUE], indirect=True)
def test_servers_follow_the_load_without_a_failed_request(farm: ScaledFarm, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["rate", *map(str, (2, 8, 16, 22, 22, 22, 12, 4, 2, 2))]) + "\n")
    with running(*farm.command("run", "--log-level", "debug")) as scaler:
        scaler.until(lambda: farm.counts().get("in service"), "the first server is in service", LIMIT)
        load = python(
            "lbdns_tools.load", f"http://best.hobbit:{farm.web_port}/work?ms=3",
            "--resolver", f"127.0.0.1:{farm.site.dns_port}", "--trace", str(trace), "--seconds", "25",
            "--json", str(tmp_path / "load.json"), "--quiet",
        )  # fmt: skip
        with running(*load) as program:
            scaler.until(lambda: farm.counts().get("in service", 0) >= 3, "servers are added", LIMIT)
            assert program.wait(LIMIT) == 0
        scaler.until(lambda: farm.counts() == {"in service": 1, "stopped": 1}, "servers are removed", LIMIT)
    (run,) = json.loads((tmp_path / "load.json").read_text())["points"][0]["runs"]
    assert run["failed"] == 0
    assert run["requests"] >= 250
    rows = (tmp_path / "scaler" / "scaler.csv").read_text().splitlines()
    assert len(rows) > 20


@pytest.mark.parametrize("farm", [FIXED], indirect=True)
def test_plan_and_dry_run_change_nothing(farm: ScaledFarm) -> None:
    with running(*farm.command("plan")) as program:
        assert program.wait() == 0
        assert "would do:\n  web-1: wanted" in program.output
        assert "web-2: wanted" in program.output
    with running(*farm.command("run", "--dry-run")) as program:
        program.until(lambda: "dry run: web-2: wanted" in program.errors, "it says what it would do")
        assert program.stop() == 0
    assert farm.machines() == set()
    assert not (farm.config.parent / "scaler").exists()


@pytest.mark.parametrize("farm", [FIXED], indirect=True)
def test_two_scalers_of_one_farm(farm: ScaledFarm) -> None:
    with running(*farm.command("run")) as first:
        first.until(farm.status, "it runs")
        with running(*farm.command("run")) as second:
            assert second.wait() == 1
            assert "another lbdns-scaler is using this directory" in second.errors
        with running(*farm.command("status")) as status:
            assert status.wait() == 0
            assert status.output.startswith("farm web: ")
