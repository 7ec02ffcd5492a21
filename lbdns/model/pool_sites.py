"""The sites of a pool: the members of each site, and the order in which each client uses the sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.config import PoolConfig
from lbdns.model.site_networks import SiteNetworks, SiteOrder

MAX_ORDERS: Final = 64  # different orders of a pool's sites: each has plans of its own


@dataclass(frozen=True, slots=True)
class PoolSites:
    """A pool's sites, with the indexes of their members, and the orders of the clients."""

    members: Mapping[str, Sequence[int]]  # by site, in the default order; ascending
    networks: SiteNetworks

    @property
    def orders(self) -> Sequence[SiteOrder]:
        """Return the different orders in which clients use the sites; the first is that of clients in no known network
        or place."""
        return self.networks.orders


def pool_sites(pool: PoolConfig, networks: SiteNetworks) -> PoolSites | None:
    """Return the sites of ``pool``, or None if it has no sites."""
    if not pool.sites:
        return None
    index = {name: i for i, name in enumerate(pool.members)}
    names = dict(pool.sites)
    mine = networks.for_sites(names)
    return PoolSites({site: sorted(index[name] for name in names[site]) for site in mine.default}, mine)


def same_orders(before: PoolSites | None, now: PoolSites | None) -> list[int | None]:
    """Return, for each order ``before``, the number of the same order ``now``, or None if there is no such order.

    A pool without sites has one order.
    """
    ours: list[SiteOrder] = [*now.orders] if now else [()]
    theirs: Sequence[SiteOrder] = before.orders if before else [()]
    return [ours.index(order) if order in ours else None for order in theirs]


def order_faults(sites: PoolSites | None) -> Iterable[str]:
    """Yield an error if the clients of a pool use its sites in too many different orders."""
    if sites and len(sites.orders) > MAX_ORDERS:
        yield (
            f"[sites] puts this pool's sites into {len(sites.orders)} different orders, but at most {MAX_ORDERS} are "
            "supported; let more networks or places share an order"
        )
