"""Sends HTTP and DNS probes to the lab's servers from within the servers' network namespaces."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from typing import Final

from lbdns_shared.endpoint import DNS_PORT
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, HTTPS_PORT
from lbdns_tools.lab.machines.network_namespaces import inside
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.load.stub_dns_message import A, is_answer, query, question

_MOST: Final = 64 * 2**20  # maximum number of bytes read from a page
_HTTP_S: Final = 5.0  # time-out of each read; a server with a twentieth of a core is slow
_DNS_S: Final = 1.0


def get(place: PlacedMachine, path: str, port: int = 0, *, tls: bool = False) -> tuple[int, bytes] | None:
    """Return the status code and body of a page from a machine's web server, or None if the request fails.

    A ``port`` of 0 means the default port. With ``tls``, the server's certificate is not verified.
    """

    def ask() -> tuple[int, bytes] | None:
        address = place.machine.address
        connection = (
            http.client.HTTPSConnection(address, port or HTTPS_PORT, timeout=_HTTP_S, context=_unverified())
            if tls
            else http.client.HTTPConnection(address, port or HTTP_PORT, timeout=_HTTP_S)
        )
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return response.status, response.read(_MOST)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    return inside(place.namespace, ask)


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def answers_dns(place: PlacedMachine, name: str) -> bool:
    """Return whether the DNS server on a machine responds to a query for ``name``."""
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
