"""Tests of ``explain.NAME TXT`` with dig: predictions come true, and clients without permission receive nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from lbdns.policies import POLICIES
from tests.end_to_end.harness import Site, agents, best, dig, new_site, serving
from tests.end_to_end.process import eventually
from tests.end_to_end.protocol import PLANES
from tests.needs import needs

MEMBERS: Final = {name: (f"127.0.0.{last}",) for name, last in (("bilbo", 16), ("frodo", 17), ("sam", 18))}
NAMES: Final = ", ".join(f'{policy.replace("_", "-")} = "{policy}"' for policy in POLICIES)

NO_HISTORY: Final = "[history]\non = false\n"

pytestmark = needs(programs=("dig",))


def texts(site: Site, name: str, *arguments: str) -> list[str]:
    """Return the TXT records printed by dig, with each record's strings joined."""
    lines = dig(site, "+short", f"explain.{name}", "TXT", *arguments).splitlines()
    return ["".join(shlex.split(line)) for line in lines if not line.startswith(";")]


@pytest.mark.parametrize("plane", PLANES)
def test_it_says_who_comes_next(tmp_path: Path, plane: str) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(server=f'plane = "{plane}"', pool=f"names = {{ {NAMES} }}", web=NO_HISTORY)
    with serving(site), agents(site, interval=60.0) as made:
        for agent in made.values():
            agent.send(cpu_idle=50.0)
        made["frodo"].send(cpu_idle=100.0)
        eventually(lambda: texts(site, "best.hobbit")[0].startswith("next=frodo "), "frodo is the best")
        assert [member["answers"] for member in site.members_by_name().values()] == [0, 0, 0]
        for policy in POLICIES:
            name = f"{policy.replace('_', '-')}.hobbit"
            for _ in range(4):  # the first time each goes the long way
                summary, *members = texts(site, name)
                told = re.findall(r"^next=(\w+) \(", summary)
                assert [best(site, name)] == told
                assert sorted(text.split()[0] for text in members) == sorted(MEMBERS)
                assert sum(float(p) for text in members for p in re.findall(r" p=([\d.]+) ", text)) == pytest.approx(
                    1, abs=0.02
                )
        scores = {name: member["score"] for name, member in site.members_by_name().items()}
        for text in texts(site, "best.hobbit")[1:]:
            score = scores[text.split()[0]]
            assert f" score={score} (run_queue_per_core 24.4 cpu_idle {24.4 if score > 90 else 12.2:g} " in text
            assert " state=usable " in text


def test_over_udp_and_tcp(tmp_path: Path) -> None:
    site = new_site(tmp_path, {f"m{number}": (f"127.0.1.{number + 1}",) for number in range(40)})
    site.write(web=NO_HISTORY)
    with serving(site):
        text = dig(site, "explain.best.hobbit", "TXT", "+ignore")
        assert re.search(r"flags: qr aa tc rd;.* ANSWER: 0,", text)
        text = dig(site, "eXplain.Best.hobbit", "TXT")
        assert ";; Truncated, retrying in TCP mode." in text
        assert re.search(r"status: NOERROR.*\n;; flags: qr aa rd; QUERY: 1, ANSWER: 21,", text)
        assert re.search(r'^eXplain\.Best\.hobbit\.\s+0\s+IN\s+TXT\s+"next=m0 \(the pool fails open ', text, re.M)
        assert "members=40 (20 less probable members omitted)" in text
        assert "status: NOERROR" in dig(site, "explain.best.hobbit", "A")


def test_who_may_not_know_finds_no_such_name(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(web=f'{NO_HISTORY}[explain]\nallow = ["127.0.0.9/32"]')
    with serving(site):
        assert texts(site, "best.hobbit", "-b", "127.0.0.9")[0].startswith("next=bilbo (the pool fails open ")
        for transport in ("+notcp", "+tcp"):
            text = dig(site, "explain.best.hobbit", "TXT", transport)
            assert "status: NXDOMAIN" in text
            assert "TXT\t" not in text
