"""Asking servers of the lab from inside their machines: the lab's own process is in none of its networks."""

from __future__ import annotations

import http.client
import os
import socket
from typing import Final

from lbdns.endpoint import DNS_PORT
from lbdns_tools.lab.farm import HTTP_PORT
from lbdns_tools.lab.network import inside
from lbdns_tools.lab.place import Place
from lbdns_tools.load.dns_message import A, is_answer, query, question

_MOST: Final = 64 * 2**20  # bytes of a page that are read
_HTTP_S: Final = 5.0  # that each read waits: a page from a server with a twentieth of a core takes a while
_DNS_S: Final = 1.0


def get(place: Place, path: str, port: int = HTTP_PORT) -> tuple[int, bytes] | None:
    """Status code and body of a page of the web server on a machine; None if no whole answer comes."""

    def ask() -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection(place.machine.address, port, timeout=_HTTP_S)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return response.status, response.read(_MOST)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    return inside(place.namespace, ask)


def answers_dns(place: Place, name: str) -> bool:
    """Whether the DNS server on a machine gives any answer about ``name``."""
    asked = question(name, A)
    ident = int.from_bytes(os.urandom(2), "big")

    def ask() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(_DNS_S)
            try:
                asking.connect((place.machine.address, DNS_PORT))
                asking.send(query(ident, asked))
                return is_answer(asking.recv(4096), ident, asked)
            except OSError:
                return False

    return inside(place.namespace, ask)
