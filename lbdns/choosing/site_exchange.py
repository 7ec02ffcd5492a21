"""Prevents sites from passing clients on: a site that gets clients of other sites keeps its own clients. Pure.

Otherwise, two sites could exchange clients, or the clients of a full site could displace those of its neighbour. More
clients would then get servers farther away, although no site's load would be different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

FAINT: Final = 1e-6  # of the whole demand: that of clients without recent answers, whose shares follow the rule as well


def without_exchange(
    shares: Sequence[Sequence[float]], nearest: Sequence[int], demand: Sequence[float]
) -> list[list[float]]:
    """Return ``shares`` in which no site both sends clients to other sites and gets clients of other sites.

    The arguments are sequences by order: the shares of the sites, the ``nearest`` site that can serve, and the demand
    of the clients. A site's own clients stay there instead of those that came from other sites. These go where the
    site's own clients would have gone, or stay at home. The load of the sites does not change.
    """
    found = [list(parts) for parts in shares]
    least = FAINT * math.fsum(demand) or 1.0
    weights = [max(least, d) for d in demand]
    for site in dict.fromkeys(nearest):
        out = [0.0] * len(found[0])  # the demand of this site's clients at each other site
        guests = 0.0
        for parts, home, weight in zip(found, nearest, weights, strict=True):
            if home != site:
                guests += weight * parts[site]
            else:
                out = [o + weight * part * (s != site) for s, (o, part) in enumerate(zip(out, parts, strict=True))]
        leaving = math.fsum(out)
        if not guests or not leaving:
            continue
        kept_out, kept_in = (max(0.0, 1 - min(guests, leaving) / flow) for flow in (leaving, guests))
        for parts, home in zip(found, nearest, strict=True):
            if home == site:
                parts[:] = [part if s == site else part * kept_out for s, part in enumerate(parts)]
                parts[site] += 1 - math.fsum(parts)
            else:
                moved, parts[site] = parts[site] * (1 - kept_in), parts[site] * kept_in
                parts[:] = [part + moved * o / leaving for part, o in zip(parts, out, strict=True)]
    return found


def without_meeting(
    targets: Sequence[Sequence[float]], shares: Sequence[Sequence[float]], nearest: Sequence[int]
) -> list[list[float]]:
    """Return ``targets`` in which a site gets no more clients of other sites than now while some of its own clients are
    elsewhere: these return first.

    The arguments are sequences by order: the future and the present shares of the sites, and the ``nearest`` site that
    can serve.
    """
    away = {home for parts, home in zip(shares, nearest, strict=True) if parts[home] < 1 - 1e-9}
    found = [list(parts) for parts in targets]
    for parts, before, home in zip(found, shares, nearest, strict=True):
        for site in away - {home}:
            excess = max(0.0, parts[site] - before[site])
            parts[site] -= excess
            parts[home] += excess
    return found
