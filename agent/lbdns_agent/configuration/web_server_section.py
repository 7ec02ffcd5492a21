"""Reads ``[web-server]``: the kind of web server that the agent measures, and where."""

from __future__ import annotations

from typing import Final

from lbdns_agent.configuration.ini_file import IniSection, any_of
from lbdns_agent.sources.plain_number import parse_number
from lbdns_agent.webserver.nginx_workers import NGINX_URL
from lbdns_agent.webserver.status_page import StatusUrl, parse_page_url
from lbdns_agent.webserver.web_server_options import DEFAULT_WATCH, WebServerOptions
from lbdns_shared.endpoint import Endpoint, parse_listen

KINDS: Final = ("nginx", "haproxy")
KEYS: Final = (*KINDS, "workers", "proxies", "watch")
CSV_URL: Final = "http://127.0.0.1:8404/stats;csv"
MAX_WORKERS: Final = 1e9


def read_web_server(section: IniSection) -> WebServerOptions | None:
    """Return the web server, or None after adding errors to the section's findings."""
    section.check_keys(KEYS)
    workers = section.read("workers", _parse_workers, None)
    watch = section.read("watch", _parse_watch, None)
    given = any_of(KINDS, section.texts)
    if len(given) != 1:
        what = "names more than one web server" if given else "names no web server"
        section.findings.add(section.line, f"[web-server] {what}; write one of {', '.join(KINDS)}")
        return None
    if given[0] == "nginx":
        if "proxies" in section.texts:
            section.wrong("proxies", "applies only to 'haproxy'")
        url = section.read("nginx", lambda text: parse_page_url(text, NGINX_URL), None)
        return WebServerOptions("nginx", url, workers, watch=watch or url.endpoint) if url else None
    place = section.read("haproxy", _parse_haproxy, None)
    if place is None:
        return None
    proxies = section.read("proxies", _parse_proxies, frozenset[str]())
    default = DEFAULT_WATCH if isinstance(place, str) else place.endpoint
    return WebServerOptions("haproxy", place, workers, proxies, watch or default)


def _parse_haproxy(text: str) -> StatusUrl | str:
    if text.startswith("/"):
        return text
    if "://" not in text:
        raise ValueError(f"must be the path of HAProxy's statistics socket or a URL such as {CSV_URL}, not {text!r}")
    url = parse_page_url(text, CSV_URL)
    if not url.target.endswith(";csv"):
        raise ValueError(f"the URL must end in ';csv', as in {CSV_URL}, not {text!r}")
    return url


def _parse_proxies(text: str) -> frozenset[str]:
    names = frozenset(text.replace(",", " ").split())
    if not names:
        raise ValueError("must name at least one front end, back end or listen section")
    return names


def _parse_workers(text: str) -> float:
    number = parse_number(text)
    if not 1 <= number <= MAX_WORKERS or number != int(number):
        raise ValueError(f"must be an integer from 1 to {MAX_WORKERS:.0f}, not {text!r}")
    return number


def _parse_watch(text: str) -> Endpoint:
    endpoint = parse_listen(text, 0)
    if not endpoint.port:
        raise ValueError(f"must be ADDRESS:PORT, such as 127.0.0.1:80, not {text!r}")
    return endpoint
