"""Tests of the lines about a pool's sites."""

from __future__ import annotations

from typing import Any

from lbdns.commands.terminal.site_lines import site_lines

DOCUMENT: dict[str, Any] = {
    "sites": [
        {"name": "ber", "members": ["gandalf", "frodo"], "usable": 1, "utilization": 0.634},
        {"name": "par", "members": ["bilbo"], "usable": 1, "utilization": None},
    ],
    "orders": [
        {"sites": ["ber", "par"], "shares": [0.75, 0.25], "why": "has less headroom than other sites"},
        {"sites": ["par", "ber"], "shares": [0.99, 0.01], "why": ""},
    ],
}
SITES = ["site ber: 1 of 2 members usable, utilization 63 %", "site par: 1 of 1 members usable, utilization unknown"]
SPILLS = "clients with the default order: ber 75 %, par 25 % (site ber has less headroom than other sites)"


def lines(document: dict[str, Any], *, all_orders: bool) -> list[str]:
    return [line.plain for line in site_lines(document, all_orders=all_orders)]


def test_sites_and_orders() -> None:
    alone = "clients with the order par, ber: par 99 %, ber 1 %"
    assert lines(DOCUMENT, all_orders=True) == [*SITES, SPILLS, alone]
    assert lines(DOCUMENT, all_orders=False) == [*SITES, SPILLS]


def test_a_pool_without_sites_and_an_older_server_have_no_lines() -> None:
    assert lines({"sites": [], "orders": []}, all_orders=True) == lines({}, all_orders=True) == []
