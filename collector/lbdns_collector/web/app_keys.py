"""Keys under which the HTTP application stores the objects that request handlers share."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from lbdns_collector.status.status_source import StatusSource
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.event_hub import EventHub
from lbdns_collector.web.render_scheduler import RenderScheduler
from lbdns_collector.web.scaler_reader import ScalerAnswer
from lbdns_collector.web.single_flight import SingleFlight

SOURCE: Final = web.AppKey("source", StatusSource)
ACCESS: Final = web.AppKey("readers", AccessControl)
SCHEDULER: Final = web.AppKey("scheduler", RenderScheduler)
STATUS: Final = web.AppKey("status", SingleFlight[bytes])
METRICS: Final = web.AppKey("metrics", SingleFlight[bytes])
SCALER: Final = web.AppKey("scaler", SingleFlight[ScalerAnswer])
HUB: Final = web.AppKey("hub", EventHub)
