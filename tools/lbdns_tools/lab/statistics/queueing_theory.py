"""Queueing theory for a server with whole processors (Erlang C, M/M/c), for comparison with measurements."""

from __future__ import annotations

from math import factorial


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that all servers are busy.

    Raises ValueError unless the offered load, rate x service time, is below the number of servers.
    """
    if servers < 1 or not 0 <= offered < servers:
        raise ValueError(
            f"the offered load must be at least 0 and below the number of servers ({servers}), not {offered:g}"
        )
    waiting = offered**servers / factorial(servers) * servers / (servers - offered)
    return waiting / (sum(offered**n / factorial(n) for n in range(servers)) + waiting)


def mean_response(servers: int, service_s: float, rate: float) -> float | None:
    """Return the mean response time of M/M/c in seconds, or None if the rate is so high that the queue keeps growing.

    With processor sharing, as in a kernel, the result holds for any distribution of service times: exactly for one
    processor, where it is S / (1 - rho), and approximately for more.
    """
    offered = rate * service_s
    if offered >= servers:
        return None
    return service_s + erlang_c(servers, offered) * service_s / (servers - offered)
