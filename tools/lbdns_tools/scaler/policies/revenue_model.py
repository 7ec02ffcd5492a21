"""Arithmetic of the 2012 study: capacity, lost requests, revenue, and the number of servers with the best revenue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from lbdns_tools.queueing_theory import erlang_b
from lbdns_tools.scaler.policies.round_history import round_up

HOUR: Final = 3600.0  # s

#: The study's server and prices (its table 6.1)
SERVICE_TIME: Final = 0.070  # s per request on one core
CORES: Final = 2
INCOME: Final = 0.000017  # dollars per request
PRICE: Final = 0.17  # dollars per server and hour


class LossModel(Enum):
    """How many requests are lost if more arrive than the servers can serve."""

    CAPACITY = "capacity"  # equation 6.5: exactly what exceeds the capacity
    ERLANG_B = "erlang_b"  # no queue: a request that finds all servers busy is lost


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type of server in the study's table 5.2."""

    requests_per_s: float
    price: float  # dollars per hour

    @property
    def price_per_request(self) -> float:
        """The price of one request at full load, in dollars."""
        return self.price / (HOUR * self.requests_per_s)


INSTANCE_TYPES: Final = {
    "m1.small": InstanceType(6.0, 0.085),
    "m1.large": InstanceType(18.0, 0.34),
    "c1.medium": InstanceType(28.0, 0.17),
}


@dataclass(frozen=True, slots=True)
class Prices:
    """The income from a served request and the price of one server per hour, in the same currency."""

    income: float = INCOME
    price: float = PRICE

    def cost(self, hours: float) -> float:
        """Return the cost of the given number of server hours."""
        return hours * self.price

    def revenue(self, requests: float, lost: float, hours: float) -> float:
        """Return the income from the requests that were not lost, less the cost of the server hours."""
        return (requests - lost) * self.income - self.cost(hours)


def capacity_of(service_time: float, cores: float) -> float:
    """Return the requests/s that a server can serve (equation 5.1). ``service_time`` is in seconds."""
    return cores / service_time


def lost_share(servers: int, offered: float, model: LossModel) -> float:
    """Return the share of requests that is lost. ``offered`` is the rate divided by the capacity of one server."""
    if offered <= 0:
        return 0.0
    if model is LossModel.ERLANG_B:
        return erlang_b(servers, offered)
    return max(0.0, 1 - servers / offered)


def hourly_revenue(servers: int, rate: float, capacity: float, prices: Prices, model: LossModel) -> float:
    """Return the revenue of one hour with ``rate`` requests/s."""
    served = (1 - lost_share(servers, rate / capacity, model)) * rate
    return HOUR * served * prices.income - servers * prices.price


def best_servers(rate: float, capacity: float, prices: Prices, model: LossModel, maximum: int) -> int:
    """Return the number of servers, from 1 to ``maximum``, with the highest revenue per hour.

    The revenue rises with the number of servers up to its peak and falls afterwards, so the first fall ends the search.
    """
    best, revenue = 1, hourly_revenue(1, rate, capacity, prices, model)
    for servers in range(2, maximum + 1):
        following = hourly_revenue(servers, rate, capacity, prices, model)
        if following < revenue:
            break
        if following > revenue + 1e-12:
            best, revenue = servers, following
    return best


def servers_for(rate: float, capacity: float) -> int:
    """Return the smallest number of servers whose capacity is at least ``rate``."""
    return round_up(rate / capacity)


def flat_rate_hours(rate: float, capacity: float, hours: float) -> float:
    """Return the server hours that a constant rate needs, without rounding up servers or hours."""
    return rate / capacity * hours
