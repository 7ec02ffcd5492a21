"""The settings of a replay: the farm, its servers and its prices. The defaults are those of the 2012 study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from lbdns_tools.scaler.policies.policy_table import POLICIES
from lbdns_tools.scaler.policies.revenue_model import (
    CORES,
    HOUR,
    INCOME,
    PRICE,
    SERVICE_TIME,
    LossModel,
    Prices,
    capacity_of,
)
from lbdns_tools.scaler.policies.scaling_policy import ScalingPolicy

BOOT_TIME: Final = 180.0  # s until a server joins, as measured in the 2012 study


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """A farm of equal servers, and its costs. Times are in seconds."""

    prices: Prices = Prices(INCOME, PRICE)
    billing_period: float = HOUR  # 0: by the second
    service_time: float = SERVICE_TIME
    cores: float = CORES
    boot_time: float = BOOT_TIME
    drain_time: float = 60.0  # a removed server is paid for this much longer
    minimum: int = 1
    maximum: int = 20
    period: float = 60.0  # between two rounds
    loss: LossModel = LossModel.CAPACITY
    start: int = 0  # servers at the start of the trace; 0: as many as its first rate needs
    warm_up: float = 0.0  # at the start of the trace; its hours and requests do not count

    @property
    def capacity(self) -> float:
        """The requests/s that one server can serve."""
        return capacity_of(self.service_time, self.cores)


def make_policy(name: str, settings: ReplaySettings, configured: Mapping[str, ScalingPolicy]) -> ScalingPolicy:
    """Return the configured policy, or the policy ``name`` with its defaults.

    A policy with defaults gets the replay's prices, cores, boot time and billing period.
    """
    if name in configured:
        return configured[name]
    policy = POLICIES[name]()
    known: dict[str, Any] = {
        "income": settings.prices.income,
        "price": settings.prices.price,
        "loss": settings.loss.value,
        "cores": settings.cores,
        "boot_time": settings.boot_time,
        "billing_period": settings.billing_period,
    }
    names = {field.name for field in fields(policy)}  # type: ignore[arg-type]
    return replace(policy, **{key: value for key, value in known.items() if key in names})  # type: ignore[type-var]
