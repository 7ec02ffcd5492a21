"""Decides whether the Host header of a request names this server, to prevent DNS rebinding.

In a DNS rebinding attack, a website points its own name at this server's address. The website's scripts can then make a
browser send requests to this server. The Host header of such a request contains the attacking website's name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import Final

LOCALHOST: Final = "localhost"
_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[^\]]*)?)\]|(?P<name>[^\[\]:]+))(?::[0-9]*)?\Z")


def is_name_of_server(host: str, names: Collection[str]) -> bool:
    """Return whether ``host`` (RFC 9110, section 7.2) is an IP address, localhost or one of ``names``.

    ``names`` are in lower case and have no final dot. A port in ``host`` is ignored.
    """
    found = _HOST.match(host)
    if not found:
        return False
    address = (found["ipv6"] or found["name"]).partition("%")[0]
    try:
        return (ipaddress.ip_address(address).version == 6) == (found["ipv6"] is not None)
    except ValueError:
        name = address.lower().removesuffix(".")
        return found["name"] is not None and "%" not in host and (name == LOCALHOST or name in names)
