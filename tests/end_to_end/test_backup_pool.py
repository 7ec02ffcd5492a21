"""A pool whose backup stands in for it, from the configuration to dig, on both planes and with several workers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.harness import FakeAgent, Site, agents, dig, new_site, serving
from tests.end_to_end.protocol import PLANES
from tests.needs import needs

MEMBERS: Final = {"gandalf": ("127.0.0.18",), "frodo": ("127.0.0.17",), "sam": ("127.0.0.19",)}
SPARE: Final = {"127.0.0.17", "127.0.0.19"}

pytestmark = needs(programs=("dig",))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("answer", ["cname", "address"])
def test_the_backup_stands_in_and_hands_back(tmp_path: Path, plane: str, workers: int, answer: str) -> None:
    site = new_site(tmp_path, MEMBERS)
    write(site, plane, workers, answer)
    with agents(site) as senders, serving(site) as server:
        send(senders)
        server.until(lambda: usable(site) == {"gandalf", "frodo", "sam"}, "all members have reported")
        server.until(lambda: addresses(site) == {"127.0.0.18"}, "answers name the pool's own member")
        assert pool_status(site)["backup"] == {"pool": "spare", "share": 0, "why": ""}
        senders["gandalf"].send("bye")
        server.until(lambda: addresses(site) == SPARE, "answers name the members of the backup")
        status = pool_status(site)
        assert status["backup"] == {"pool": "spare", "share": 1, "why": "has no usable member"}
        assert not status["fail_open"]
        assert site.metric("lbdns_pool_backup_share", pool="web") == 1
        assert site.metric("lbdns_pool_fail_open", pool="web") == 0
        told = dig(site, "+short", "+tcp", "explain.rr.hobbit", "TXT")
        assert "pool web has no usable member: 100 % to spare" in told
        server.until(lambda: site.metric("lbdns_answers_total", pool="web", member="sam") > 0, "answers are counted")

        def returns() -> bool:
            send(senders)
            return "127.0.0.18" in addresses(site, 40)

        server.until(returns, "clients return to the pool")


def write(site: Site, plane: str, workers: int, answer: str) -> None:
    more = f'names = {{ rr = "round_robin" }}\nbackup = "spare"\nanswer = "{answer}"'
    site.write(server=f'plane = "{plane}"\nworkers = {workers}\n[explain]\nallow = ["127.0.0.0/8"]', pool=more)
    text = site.config.read_text().replace('["gandalf", "frodo", "sam"]', '["gandalf"]')
    spare = '[[pool]]\nname = "spare"\nzone = "hobbit"\nmembers = ["frodo", "sam"]\nnames = { spare = "best" }\n'
    site.config.write_text(text + spare)


def send(senders: dict[str, FakeAgent]) -> None:
    for sender in senders.values():
        sender.send()


def usable(site: Site) -> set[str]:
    members = [member for pool in site.status()["pools"] for member in pool["members"]]
    return {member["name"] for member in members if member["state"] == "usable"}


def pool_status(site: Site) -> dict[str, object]:
    found: dict[str, object] = site.status()["pools"][0]
    return found


def addresses(site: Site, count: int = 6) -> set[str]:
    """Return the addresses in ``count`` answers, each to a client of its own."""
    return {dig(site, "+short", "rr.hobbit", "A").split()[-1] for _ in range(count)}
