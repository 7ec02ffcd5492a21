"""What queueing theory says of a server with whole processors, to be put beside what was measured. Pure."""

from __future__ import annotations

from math import factorial


def erlang_c(servers: int, offered: float) -> float:
    """The probability that all are busy when a request comes; ``offered`` = rate x service time, below ``servers``."""
    if servers < 1 or not 0 <= offered < servers:
        raise ValueError(f"{servers} servers are offered {offered:g}; write at least one, and less than so many")
    waiting = offered**servers / factorial(servers) * servers / (servers - offered)
    return waiting / (sum(offered**n / factorial(n) for n in range(servers)) + waiting)


def mean_response(servers: int, service_s: float, rate: float) -> float | None:
    """The mean response of M/M/c in seconds; None from the rate on at which the queue grows for ever.

    Processors that are shared among all requests there are, as a kernel does it, have this mean for service times of
    any distribution (to good approximation; exactly with one of them, where it is S / (1 - rho)).
    """
    offered = rate * service_s
    if offered >= servers:
        return None
    return service_s + erlang_c(servers, offered) * service_s / (servers - offered)


def passed(servers: int, service_s: float) -> float:
    """The rate that so many processors pass, requests/s: c / S."""
    return servers / service_s
