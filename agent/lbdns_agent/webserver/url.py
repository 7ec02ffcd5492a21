"""The address of a status page, read from a URL. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns.endpoint import Endpoint, parse_endpoint

DEFAULT_URL: Final = "http://127.0.0.1/server-status?auto"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class StatusUrl:
    """Where the status page is asked for; ``target`` is its path with the query, ``?auto`` included."""

    scheme: str
    endpoint: Endpoint
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"

    @property
    def host_header(self) -> str:
        """Without the port when it is the scheme's own: a virtual host is found by its name."""
        text = str(self.endpoint)
        return text.removesuffix(f":{_PORTS[self.scheme]}") if self.endpoint.port == _PORTS[self.scheme] else text


def parse_url(text: str) -> StatusUrl:
    """Read ``http[s]://HOST[:PORT][/PATH][?QUERY]``. Raises ValueError.

    Without a path it is /server-status; ``auto``, the form for programs, is added to the query if missing
    (Apache's mod_status, "Machine Readable Status File").
    """
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ValueError(f"{text!r} is no URL of a status page, such as {DEFAULT_URL}")
    rest = rest.partition("#")[0]
    authority, mark, query = rest.partition("?")
    host, slash, path = authority.partition("/")
    if "@" in host:
        raise ValueError(f"{text!r}: a user and password can't be sent; let this host read the page ('Require local')")
    target = f"/{path}" if slash else "/server-status"
    if any(not 33 <= ord(character) < 127 for character in target + query):
        raise ValueError(f"{text!r} holds a character that must be written as %XX")
    if "auto" not in query.split("&"):
        query = f"{query}&auto" if mark and query else "auto"
    return StatusUrl(scheme, parse_endpoint(host, _PORTS[scheme]), f"{target}?{query}")
