"""Checks that a real Apache with PHP serves the same page without caches, with the opcode cache, and with memcached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lbdns_tools.apache_process import php_modules
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.php_content import MEMCACHED, OPCODE, PAGES, SIZE, UNCACHED, memcached_command, write_php
from lbdns_tools.lab.programs.web_content import write_content
from lbdns_tools.lab.programs.web_host_programs import apache
from tests.tools.lab.lab_machines import Machines, needs_a_lab, network_of

HOST = WebHost("frodo", 1.0, workers=2)
pytestmark = pytest.mark.skipif(not php_modules(), reason="Apache has no PHP module here")


@pytest.fixture(scope="module")
def lab() -> Iterator[Machines]:
    with network_of(LabFarm((HOST,), php=True)) as found:
        content = found.folder / "content"
        write_content(content)
        write_php(content)
        place = found.places[HOST.name]
        found.programs.start("memcached", place.command(*memcached_command()))
        apache(found.programs, place, HOST, content, found.folder / HOST.name, php=True)
        yield found


@needs_a_lab
def test_each_page_costs_less_than_the_one_before(lab: Machines) -> None:
    place, costs = lab.places[HOST.name], {}
    for name, path in PAGES.items():
        for _ in range(4):  # fill the caches, of both workers
            assert get(place, path) is not None
        before = place.group.cpu_seconds()
        for _ in range(20):
            found = get(place, path)
            assert found is not None
            assert (found[0], len(found[1])) == (200, SIZE)
        costs[name] = place.group.cpu_seconds() - before
    assert costs[UNCACHED] > 1.1 * costs[OPCODE]
    assert costs[OPCODE] > 2 * costs[MEMCACHED]
