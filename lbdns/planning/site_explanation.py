"""Explains the sites of a pool as plain data: the load of each site, and the shares of the answers. Pure."""

from __future__ import annotations

from typing import Any

from lbdns.choosing.site_shares import HAS_LESS
from lbdns.model.farm import Pool
from lbdns.planning.site_plans import SitePlans


def site_documents(sites: SitePlans | None, pool: Pool) -> dict[str, list[dict[str, Any]]]:
    """Return, as plain data, the load of the sites of ``pool`` (``sites``), and their shares for each order in which
    clients use them (``orders``). Both lists are empty if the pool has no sites."""
    if sites is None or pool.sites is None:
        return {"sites": [], "orders": []}
    carried = [
        {
            "name": use.name,
            "members": [pool.members[i].name for i in pool.sites.members[use.name]],
            "usable": use.hosts,
            "utilization": None if use.utilization is None else round(use.utilization, 4),
        }
        for use in sites.sites
    ]
    orders = [
        {"sites": list(use.sites), "shares": [round(share, 4) for share in use.shares], "why": use.why}
        for use in sites.orders
    ]
    return {"sites": carried, "orders": orders}


def elsewhere(due: int, sites: SitePlans | None) -> str:
    """Return why an answer to clients with the default order names the member ``due`` if it is not in their nearest
    site, or an empty string."""
    if sites is None:
        return ""
    use, site = sites.orders[0], sites.site_of(due)
    if site == use.sites[0]:
        return ""
    return f"site {use.sites[0]} {use.why or HAS_LESS}" if site in use.uses else f"a probe of site {site}"
