"""The options that name the web server to measure if it isn't Apache. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns_agent.webserver.status_page import StatusUrl
from lbdns_shared.endpoint import Endpoint

WebServerKind = Literal["nginx", "haproxy"]
#: Where clients reach a web server, unless the configuration says otherwise
DEFAULT_WATCH: Final = Endpoint("127.0.0.1", 80)

#: Metrics that only some web servers have, beside those of the metric catalogue
WEB_SERVER_METRICS: Final[Mapping[str, tuple[str, ...]]] = {"nginx": ("nginx_waiting",), "haproxy": ("haproxy_queue",)}


@dataclass(frozen=True)
class WebServerOptions:
    """The section [web-server].

    ``place`` is the URL of a page, or the path of HAProxy's socket. ``workers`` is the number of requests that the
    server can serve at once, or None to use the number that the server reports. ``proxies`` names the HAProxy proxies
    that count; if it is empty, all of them count. The agent measures the processes that listen on ``watch``.
    """

    kind: WebServerKind
    place: StatusUrl | str
    workers: float | None = None
    proxies: frozenset[str] = frozenset()
    watch: Endpoint = DEFAULT_WATCH

    def __str__(self) -> str:
        return f"{self.kind}, {self.place}"
