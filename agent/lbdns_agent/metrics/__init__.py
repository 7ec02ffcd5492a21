"""The sensors for all metrics, one module per source.

To add a metric, add a row to the metric catalogue and a module to this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Union

from lbdns_agent.sensor import NonBlockingSensor, Sensor
from lbdns_shared.metric_catalogue import CATALOGUE, MetricDescription

AnySensor = Union[Sensor[Any], NonBlockingSensor[Any]]


def load_sensors(catalogue: Mapping[str, MetricDescription]) -> dict[str, AnySensor]:
    """Return a map from each metric to its sensor.

    The catalogue contains the name of the module that defines the sensor.

    Several metrics may share a sensor.

    """
    return {name: import_module(f"lbdns_agent.metrics.{metric.sensor}").SENSOR for name, metric in catalogue.items()}


METRIC_SENSORS: Final[Mapping[str, AnySensor]] = load_sensors(CATALOGUE)
