"""Formulas of queueing theory for servers with several processors: Erlang B, Erlang C, M/M/c and Halfin-Whitt."""

from __future__ import annotations

from math import erf, exp, inf, pi, sqrt
from typing import Final

MOST_BETA: Final = 30.0  # beyond it, no request waits, and the density of the normal distribution is 0 nearly
BISECTIONS: Final = 50  # halvings of an interval; nearly as precise as a float


def erlang_b(servers: int, offered: float) -> float:
    """Return the probability that an arriving request is lost because all servers are busy (Erlang B).

    The recursion over the number of servers neither overflows nor loses precision, even for thousands of servers.
    Raises ValueError if the number of servers or the offered load (rate x service time) is negative, or if the load is
    not finite.
    """
    if servers < 0 or not 0 <= offered < inf:
        raise ValueError(
            f"the number of servers ({servers}) and the offered load ({offered:g}) must be at least 0 and finite"
        )
    lost = 1.0
    for number in range(1, servers + 1):
        lost = offered * lost / (number + offered * lost)
    return lost


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that an arriving request finds all servers busy (Erlang C).

    Raises ValueError unless the offered load (rate x service time) is at least 0 and below the number of servers.
    """
    if servers < 1 or not 0 <= offered < servers:
        raise ValueError(
            f"the offered load must be at least 0 and below the number of servers ({servers}), not {offered:g}"
        )
    lost = erlang_b(servers, offered)
    return lost / (1 - offered / servers * (1 - lost))


def mean_response(servers: int, service_s: float, rate: float) -> float | None:
    """Return the mean response time of an M/M/c queue in seconds, or None if the queue grows without limit.

    If requests share the processors equally, the result applies to any distribution of service times. For one
    processor, the result is exact and equals the service time divided by (1 - utilization). For several processors, the
    result is approximate.
    """
    offered = rate * service_s
    if offered >= servers:
        return None
    return service_s + erlang_c(servers, offered) * service_s / (servers - offered)


def share_slower(servers: int, offered: float, times: float) -> float:
    """Return the share of requests whose response takes longer than ``times`` mean service times (M/M/c, FIFO).

    Raises ValueError unless the offered load is at least 0 and below the number of servers.
    """
    waiting, spare = erlang_c(servers, offered), servers - offered
    if abs(spare - 1) < 1e-9:
        slow_after_wait = (1 + times) * exp(-times)
    else:
        slow_after_wait = (spare * exp(-times) - exp(-spare * times)) / (spare - 1)
    return (1 - waiting) * exp(-times) + waiting * slow_after_wait


def waiting_share(beta: float) -> float:
    """Return the share of requests that wait when a large offered load R is served by R + beta sqrt(R) servers.

    Source: Halfin and Whitt, Heavy-traffic limits for queues with many exponential servers, 1981. ``beta`` must be
    at least 0.
    """
    density = exp(-beta * beta / 2) / sqrt(2 * pi)
    if density == 0:
        return 0.0
    return 1 / (1 + beta * (1 + erf(beta / sqrt(2))) / 2 / density)


def offered_within(servers: float, times: float, share: float) -> float:
    """Return the highest offered load R for which the share of requests that wait longer than ``times`` is at most
    ``share``.

    ``times`` is a multiple of the mean service time. With R + beta sqrt(R) servers, the share of requests that wait
    longer is waiting_share(beta) * exp(-beta sqrt(R) times). ``servers`` must be above 0, and ``share`` between 0 and
    1.
    """
    low, high = 0.0, servers
    for _ in range(BISECTIONS):
        offered = (low + high) / 2
        spare = servers - offered
        if waiting_share(min(MOST_BETA, spare / sqrt(offered))) * exp(-spare * times) > share:
            high = offered
        else:
            low = offered
    return low
