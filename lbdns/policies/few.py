"""Whether queries are few: then somebody looks, and is told the highest score. Pure.

A few answers can also be a crowd behind a cache: two resolvers that keep an answer for a second ask twice a second,
whoever stands behind them. Then each answer decides where hundreds of requests go, and the highest score herds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

FEW: Final = 2.0  # hand-outs per report interval, 10 s average: up to here somebody looks, above a crowd comes
PAGES: Final = 10.0  # requests an answer: what one client's pages may bring, by chance too; a crowd brings more ...
HEAVY: Final = 0.5  # ... in as few answers more than this part of what the weakest member does in an interval, ...
FOLLOWED: Final = 0.5  # ... and more than this part of the requests is where the answers led to


def allowed(answered: int, span: float, interval: float, servers: int) -> int:
    """How many more hand-outs of this server still count as few, if none but these come before the next plan.

    ``answered`` were given in the last ``span`` seconds. While the average keeps to the limit, an interval's worth of
    them always does: the oldest leave the average as the newest enter it.
    """
    limit = FEW * span / interval / servers
    if answered > limit:
        return 0
    return int(limit) - answered + math.ceil(FEW / servers)


def carry_a_crowd(
    requests: Sequence[float],
    newest: Sequence[float],
    handed: Sequence[float],
    capacity: Sequence[float],
    answers_per_s: float,
    interval: float,
) -> bool:
    """Whether as many answers as are few bring a crowd: more than the weakest member should be sent at a time, and the
    requests are where the answers led to. Else these come from elsewhere, and the answers are for who looks.

    Each by member: ``requests`` a second, without the agents' own, on the average and by the ``newest`` reports (in the
    average a crowd that has gone stays for long), what was ``handed`` out lately (in any measure), ``capacity`` in
    requests a second. ``answers_per_s`` is above 0.
    """
    every, led = sum(requests), sum(handed)
    if not every or not led:
        return False
    brought = min(every, sum(newest)) / answers_per_s
    if brought <= PAGES or FEW * brought <= HEAVY * min(capacity) * interval:
        return False
    followed = sum(min(r / every, h / led) for r, h in zip(requests, handed, strict=True))
    return followed > FOLLOWED
