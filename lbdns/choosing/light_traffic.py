"""Light traffic: a query rate so low that every answer can name the best member, unless each answer brings many
clients.

Even a few answers can reach many clients. If two resolvers cache an answer for one second, they send two queries per
second, regardless of the number of their clients. If each answer determines where hundreds of requests go, a policy
that always names the member with the highest score causes herding.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

LIGHT: Final = 2.0  # answers per report interval, as a 10 s average: the most that counts as light traffic
PAGES: Final = 10.0  # requests per answer: one client's pages, with some chance; more than this is a crowd ...
HEAVY: Final = 0.5  # ... if an interval's answers bring more than this share of what the weakest member can serve, ...
WEAKEST: Final = 0.25  # share of the median capacity: a member that claims less must not turn light traffic into crowds
FOLLOWED: Final = 0.5  # ... and more than this share of the requests went where the answers pointed


def answers_allowed(answered: float, span: float, interval: float, servers: int) -> int:
    """Return the number of answers that this server can still send before the next plan while its traffic counts as
    light.

    ``answered`` is the number of answers in the last ``span`` seconds (if several servers' answers are known, their
    mean); ``interval`` is the report interval in seconds.
    If ``answered`` is within the limit for ``span`` seconds, at least as many answers as one report interval permits
    may follow, because old answers leave the averaging window while new answers enter it.
    """
    limit = LIGHT * span / interval / servers
    if answered > limit:
        return 0
    return int(int(limit) - answered) + math.ceil(LIGHT / servers)


def brings_crowds(
    requests: Sequence[float],
    newest: Sequence[float],
    selected: Sequence[float],
    capacity: Sequence[float],
    answers_per_s: float,
    interval: float,
) -> bool:
    """Return whether, even in light traffic, each answer brings a crowd of requests.

    Answers bring a crowd if two conditions are met. First, there are more requests per answer than the weakest member
    should get at once. Second, the requests go to the members that the answers named. If the requests go to other
    members, something else causes them.

    Each sequence has one item per member. ``requests`` (averages) and ``newest`` (from the newest reports) are in
    requests/s and exclude the agents' own requests. When a crowd leaves, ``newest`` decreases sooner than ``requests``.
    ``selected`` is proportional to the number of recent selections; ``capacity`` is in requests/s. ``answers_per_s``
    must be greater than 0.
    """
    total, total_selected = sum(requests), sum(selected)
    if not total or not total_selected:
        return False
    per_answer = min(total, sum(newest)) / answers_per_s
    weakest = max(min(capacity), WEAKEST * statistics.median(capacity))
    if per_answer <= PAGES or LIGHT * per_answer <= HEAVY * weakest * interval:
        return False
    followed = sum(min(r / total, s / total_selected) for r, s in zip(requests, selected, strict=True))
    return followed > FOLLOWED
