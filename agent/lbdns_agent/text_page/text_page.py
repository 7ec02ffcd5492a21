"""The text page of a running agent: keeps the last sample, and serves it over HTTP."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

from lbdns_agent.host_sampler import HostSample
from lbdns_agent.limited_listener import open_listener
from lbdns_agent.text_page.figures_page import PageSample, figures_page
from lbdns_agent.text_page.page_request import respond
from lbdns_agent.text_page.page_server import TextPageServer
from lbdns_shared.endpoint import Endpoint


class TextPage:
    """Serves the last sample until ``close`` is called."""

    def __init__(self, endpoint: Endpoint, alarm: Callable[[], str]) -> None:
        """``alarm`` returns the reason for an alarm, or an empty string. The host of ``endpoint`` is an IP address.

        Raises LbdnsError if the port cannot be used.
        """
        self.server = TextPageServer(open_listener(endpoint, "--serve"), self._respond)
        # Other hosts reach a public page directly: checking the name would protect nothing
        self._is_private = ipaddress.ip_address(endpoint.host).is_loopback
        self._alarm = alarm
        self._host, self._interval = "", 0.0
        self._newest = PageSample(HostSample({}, {}), 0.0, time.monotonic())

    def observe(self, host: str, interval: float, sample: HostSample) -> None:
        """Replace the sample, which was taken now. ``host`` is the host's name; ``interval`` is in seconds."""
        self._host, self._interval = host, interval
        self._newest = PageSample(sample, time.time(), time.monotonic())

    def close(self) -> None:
        """Close the port."""
        self.server.close()

    def _respond(self, request: bytes) -> bytes:
        return respond(request, (self._host,) if self._is_private else None, self._page)

    def _page(self) -> str:
        return figures_page(self._host, self._interval, self._alarm(), self._newest, time.monotonic())
