"""Writes the load of a pool's sites, and their shares of the answers, as lines for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from lbdns.commands.terminal.printable import printable


def site_lines(document: Mapping[str, Any], *, all_orders: bool) -> Iterator[Text]:
    """Yield a line for each site of a pool, and for each order in which clients use the sites; nothing if the pool has
    no sites.

    ``document`` is a pool's status or an explanation. Unless ``all_orders`` is true, the orders of clients that use
    their nearest site alone are left out.
    """
    for site in document.get("sites", ()):  # absent in older servers
        used = "unknown" if site["utilization"] is None else f"{100 * float(site['utilization']):.0f} %"
        hosts = f"{int(site['usable'])} of {len(site['members'])} members usable"
        yield Text(f"site {printable(site['name'])}: {hosts}, utilization {used}")
    for position, order in enumerate(document.get("orders", ())):
        if not order["why"] and not all_orders:
            continue
        pairs = zip(order["sites"], order["shares"], strict=True)
        shares = ", ".join(f"{printable(site)} {100 * float(share):.0f} %" for site, share in pairs)
        sites = [printable(site) for site in order["sites"]]
        who = f"clients with the order {', '.join(sites)}" if position else "clients with the default order"
        why = f" (site {sites[0]} {printable(order['why'])})" if order["why"] else ""
        yield Text(f"{who}: {shares}{why}", "bold yellow" if why else "")
