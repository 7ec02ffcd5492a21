"""What the handlers of the application share."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from lbdns_collector.readers import Readers
from lbdns_collector.web.connections import Connections
from lbdns_collector.web.gate import Gate
from lbdns_collector.web.hub import Hub
from lbdns_collector.web.shared import Shared
from lbdns_collector.web.source import StatusSource

SOURCE: Final = web.AppKey("source", StatusSource)
READERS: Final = web.AppKey("readers", Readers)
GATE: Final = web.AppKey("gate", Gate)
CONNECTIONS: Final = web.AppKey("connections", Connections)
STATUS: Final = web.AppKey("status", Shared)
METRICS: Final = web.AppKey("metrics", Shared)
HUB: Final = web.AppKey("hub", Hub)
