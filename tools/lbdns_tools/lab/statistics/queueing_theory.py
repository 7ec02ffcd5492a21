"""Queueing models (Erlang C, M/M/c) of a server with several processors, for comparison with measurements."""

from __future__ import annotations

from math import factorial


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that an arriving request finds all servers busy (Erlang C).

    Raises ValueError unless the offered load (rate x service time) is at least 0 and below the number of servers.
    """
    if servers < 1 or not 0 <= offered < servers:
        raise ValueError(
            f"the offered load must be at least 0 and below the number of servers ({servers}), not {offered:g}"
        )
    waiting = offered**servers / factorial(servers) * servers / (servers - offered)
    return waiting / (sum(offered**n / factorial(n) for n in range(servers)) + waiting)


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
