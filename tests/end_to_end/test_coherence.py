"""A client's A, AAAA and HTTPS queries are answered with the same member, which must still be available."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.answering.asking import make_query, read
from tests.end_to_end.harness import Site, agents, dig, new_site, serving
from tests.end_to_end.process import PATIENCE, eventually
from tests.end_to_end.protocol import PLANES
from tests.needs import needs

MEMBERS: Final = {name: (f"127.0.0.{last}", f"::{last}") for name, last in (("bilbo", 16), ("frodo", 17), ("sam", 18))}

pytestmark = needs(programs=("dig",))


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def served(folder: Path, plane: str, pool: str = "", server: str = "") -> Iterator[Site]:
    """Run a server whose farm receives no reports, so that all members take turns."""
    site = new_site(folder, MEMBERS)
    site.write(
        server=f'plane = "{plane}"\n{server}',
        pool=f'names = {{ best = "best", top = "best_score", rr = "round_robin" }}\n{pool}',
    )
    with serving(site):
        yield site


def leads_to(site: Site, *arguments: str) -> str:
    """Return the member named in dig's answer."""
    answer = dig(site, "+short", "+tries=1", *arguments).split()
    return answer[0].partition(".")[0]


def lookup(site: Site, *queries: tuple[str, ...]) -> list[str]:
    """Return the members named in the answers to the queries of one lookup.

    The pause before a lookup must be longer than the pauses in it. If a busy machine extends these, repeat the lookup.
    """
    for _ in range(20):
        time.sleep(2.0)
        began = time.monotonic()
        found = [leads_to(site, "best.hobbit", *query) for query in queries]
        if time.monotonic() - began < 1.5:
            return found
    raise AssertionError("the machine is too busy for a lookup in 1.5 s")


def charges(site: Site) -> float:
    return sum(site.metric("lbdns_answers_total", policy="best", member=member) for member in MEMBERS)


def test_one_member_and_one_charge(tmp_path: Path, plane: str) -> None:
    with served(tmp_path, plane, "coherence = 30") as site:
        seen = []
        for turn in range(4):  # the first of each goes the long way
            found = [leads_to(site, "best.hobbit", rtype) for rtype in ("A", "AAAA", "HTTPS")]
            assert len(set(found)) == 1
            seen.append(found[0])
            assert charges(site) == turn + 1
        assert sorted(seen[:3]) == sorted(MEMBERS)
        assert seen[3] == seen[0]
        assert site.metric("lbdns_dns_coherent_total") == 8
        over_tcp, over_udp = lookup(site, ("AAAA", "+tcp"), ("A", "+noedns"))
        assert over_tcp == over_udp
        elsewhere = leads_to(site, "-b", "127.0.0.9", "best.hobbit", "A")
        assert leads_to(site, "best.hobbit", "HTTPS") != elsewhere, "another client"


def test_look_ups_from_one_port_meet_the_same_worker(tmp_path: Path, plane: str) -> None:
    with served(tmp_path, plane, "coherence = 30", "workers = 2") as site:
        for number in range(6):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(PATIENCE)
                sock.bind((f"127.0.4.{number + 1}", 0))
                sock.connect((site.address, site.dns_port))
                found = []
                for ident, rtype in enumerate(("A", "AAAA", "HTTPS")):
                    sock.send(make_query("best.hobbit", rtype, ident=ident))
                    found.append(str(read(sock.recv(4096)).answer[0][0].target))
                assert len(set(found)) == 1
        eventually(lambda: site.metric("lbdns_dns_coherent_total") == 12, "both workers have told what they counted")


def test_round_robin_and_what_is_switched_off_go_on(tmp_path: Path, plane: str) -> None:
    with served(tmp_path, plane, "coherence = 0") as site:
        for name in ("best.hobbit", "rr.hobbit"):
            assert sorted(leads_to(site, name, rtype) for rtype in ("A", "AAAA", "HTTPS")) == sorted(MEMBERS)
        assert site.metric("lbdns_dns_coherent_total") == 0


def test_it_outlasts_a_new_plan_but_not_the_member(tmp_path: Path, plane: str) -> None:
    with served(tmp_path, plane, "coherence = 60") as site, agents(site, interval=60.0) as made:
        for agent in made.values():
            agent.send(cpu_idle=40.0)
        made["sam"].send(cpu_idle=70.0)

        def states() -> dict[str, str]:
            return {name: member["state"] for name, member in site.members_by_name().items()}

        eventually(lambda: leads_to(site, "-b", "127.0.0.9", "top.hobbit", "TXT") == "sam", "the best is sam")
        assert leads_to(site, "top.hobbit", "A") == "sam"
        made["frodo"].send(cpu_idle=100.0)
        eventually(lambda: leads_to(site, "-b", "127.0.0.9", "top.hobbit", "TXT") == "frodo", "the best is frodo")
        assert leads_to(site, "top.hobbit", "AAAA") == "sam", "as it can still be handed out"
        made["sam"].send("bye")
        eventually(lambda: states()["sam"] == "silent", "sam has gone")
        assert leads_to(site, "top.hobbit", "HTTPS") == "frodo"
