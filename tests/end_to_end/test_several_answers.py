"""Answers that name several members, from the configuration to dig, on both planes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.harness import Site, dig, new_site, serving
from tests.end_to_end.process import PATIENCE, python
from tests.end_to_end.protocol import PLANES
from tests.needs import needs

MEMBERS: Final = {name: (f"127.0.0.{last}", f"::{last}") for name, last in (("bilbo", 16), ("frodo", 17), ("sam", 18))}
ROTATION: Final = [("127.0.0.16", "127.0.0.17"), ("127.0.0.17", "127.0.0.18"), ("127.0.0.18", "127.0.0.16")]

pytestmark = needs(programs=("dig",))


@pytest.mark.parametrize("plane", PLANES)
def test_lists_rotate_and_count_once(tmp_path: Path, plane: str) -> None:
    site = new_site(tmp_path, MEMBERS)
    site.write(server=f'plane = "{plane}"', pool='answer = "address"\nanswers = 2\nnames = { rr = "round_robin" }')
    with serving(site):
        seen = [addresses(site, "+tries=1") for _ in range(6)]  # all but the first on the fast path
        assert sorted(seen[:3]) == ROTATION
        assert seen[3:] == seen[:3]
        assert addresses(site, "+tcp") == seen[0]
        assert lbdns("ask", "rr.hobbit", f"@127.0.0.1:{site.dns_port}", "+short") == seen[1]
        (told,) = [
            line for line in dig(site, "+short", "+tcp", "explain.rr.hobbit", "TXT").splitlines() if "next" in line
        ]
        names = {address: name for name, (address, _) in MEMBERS.items()}
        assert f"next={names[seen[2][0]]} " in told
        assert f" then={names[seen[2][1]]} " in told
        assert sum(site.metric("lbdns_answers_total", policy="round_robin", member=member) for member in MEMBERS) == 8


def lbdns(*arguments: str) -> tuple[str, ...]:
    result = subprocess.run(python("lbdns", *arguments), capture_output=True, text=True, timeout=PATIENCE, check=True)
    return tuple(result.stdout.split())


def addresses(site: Site, *arguments: str) -> tuple[str, ...]:
    return tuple(dig(site, "+short", *arguments, "rr.hobbit", "A").split())
