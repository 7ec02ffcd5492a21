"""Tests that no stream of reports or queries can make a server log without end."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lbdns.planning.change_damper import MAX_CHANGES
from lbdns_shared.keys import new_master_key
from lbdns_shared.metric_catalogue import CATALOGUE
from tests.end_to_end.harness import FakeAgent, agents, ask, new_site, serving

ROUNDS = 250
PACE = 0.021  # s per round: the collector drops the reports of a host beyond 50 per second
MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"]}
ABSURD = (0.0, -1.0, 1e308, -1e308, 1e-308, 1e12, 2.0**63, 0.5, 100.0)
#: Changes of a member's state and quarantine, and of fail-open in both directions, with the line that ends each; and
#: the lines for seven reasons to drop a report
BOUND = 3 * (MAX_CHANGES + 2) + 7

Attack = Callable[[FakeAgent, int, random.Random], None]


def absurd_values(agent: FakeAgent, _: int, rng: random.Random) -> None:
    metrics = {name: rng.choice(ABSURD) for name in CATALOGUE if rng.random() < 0.6}
    agent.interval = rng.choice([1e-6, 0.1, 1.0, 86400.0])
    alarm = rng.random() < 0.2
    agent.send("alarm" if alarm else "data", f"too hot: {rng.random()}" if alarm else "", **metrics)


def alarms(agent: FakeAgent, number: int, _: random.Random) -> None:
    agent.send("alarm" if number % 2 else "data", f"alarm {number}" if number % 2 else "")


def farewells(agent: FakeAgent, number: int, _: random.Random) -> None:
    agent.send("bye" if number % 2 else "data")


def status_page(agent: FakeAgent, number: int, _: random.Random) -> None:
    """Pretend that the web server stops and starts all the time."""
    if number % 4 < 2:
        agent.send(requests_total=float(number), listen_queue=0.0)
    else:
        agent.send()


def new_boots(agent: FakeAgent, number: int, rng: random.Random) -> None:
    agent.boot, agent.seq = agent.boot + 1, 0
    agent.send(requests_total=rng.choice([0.0, 1e12]), errors_total=float(number), listen_queue=float(number))


def rejected(agent: FakeAgent, number: int, rng: random.Random) -> None:
    """Send datagrams that are rejected for each reason."""
    agent.send_bytes(rng.randbytes(rng.randrange(1400)))
    agent.send_bytes(agent.datagram(host=f"stranger-{number}"))
    agent.send_bytes(agent.datagram(master=new_master_key()))
    agent.send_bytes(agent.datagram(late=rng.choice([-1e6, 1e6])))
    for _ in range(2):
        agent.send_bytes(agent.datagram() if number % 2 else b"LBR1")


def queries(agent: FakeAgent, number: int, rng: random.Random) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((agent.site.address, agent.site.dns_port))
        sock.send(rng.randbytes(rng.randrange(1, 600)))
    if number % 10 == 0:
        with socket.create_connection((agent.site.address, agent.site.dns_port), 10) as connection:
            connection.sendall(rng.randbytes(100))


@pytest.mark.parametrize("attack", [absurd_values, alarms, farewells, status_page, new_boots, rejected, queries])
def test_lines_are_bounded(tmp_path: Path, attack: Attack) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(server="workers = 2", pool="min_usable = 0.6")
    rng = random.Random(7)
    with serving(site, "--log-level", "debug") as server, agents(site) as found:
        for name in MEMBERS:
            found[name].send(requests_total=1.0, listen_queue=0.0)
        server.until(lambda: "frodo is usable" in server.errors and "ready" in server.errors, "it is ready")
        before = len(server.errors.splitlines())
        for number in range(ROUNDS):
            attack(found["frodo"], number, rng)
            time.sleep(PACE)
            if number % 20 == 0:
                assert ask(site, "best.hobbit").answer
                found["bilbo"].send(requests_total=float(number), listen_queue=0.0)
        assert server.stop() == 0
        lines = server.errors.splitlines()[before:]
    assert len(lines) <= BOUND, "\n".join(lines)
