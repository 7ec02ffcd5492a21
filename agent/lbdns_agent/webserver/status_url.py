"""Parses the URL of a web server's status page. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_shared.endpoint import Endpoint, parse_endpoint

DEFAULT_URL: Final = "http://127.0.0.1/server-status?auto"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class StatusUrl:
    """The URL of a status page; ``target`` is its path and query, with ``?auto``."""

    scheme: str
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"

    @property
    def host_header(self) -> str:
        """The value of the Host header, without the scheme's default port: servers find a virtual host by its name."""
        text = str(self.endpoint)
        return text.removesuffix(f":{_PORTS[self.scheme]}") if self.endpoint.port == _PORTS[self.scheme] else text


def parse_status_url(text: str) -> StatusUrl:
    """Parse ``http[s]://HOST[:PORT][/PATH][?QUERY]``. Raises ValueError.

    The default path is /server-status. The query always gets ``auto``, which selects the machine-readable form
    (Apache's mod_status, "Machine Readable Status File").
    """
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ValueError(f"{text!r} is not the URL of a status page, such as {DEFAULT_URL}")
    rest = rest.partition("#")[0]
    authority, mark, query = rest.partition("?")
    host, slash, path = authority.partition("/")
    if "@" in host:
        raise ValueError(
            f"{text!r}: must not contain a user or password; let this host read the page without one ('Require local')"
        )
    target = f"/{path}" if slash else "/server-status"
    if any(not 33 <= ord(character) < 127 for character in target + query):
        raise ValueError(f"{text!r} contains a character that must be written as %XX")
    if "auto" not in query.split("&"):
        query = f"{query}&auto" if mark and query else "auto"
    return StatusUrl(scheme, parse_endpoint(host, _PORTS[scheme]), f"{target}?{query}")
