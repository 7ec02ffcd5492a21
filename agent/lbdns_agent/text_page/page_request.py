"""Reads an HTTP request for the text page, and builds the response (RFC 9110, RFC 9112). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final

LARGEST_REQUEST: Final = 4096  # bytes; a browser's or Prometheus's request is shorter
PAGE_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus's text format; browsers show it as text
_REQUEST_LINE: Final = re.compile(r"([!-~]+) ([!-~]+) HTTP/1\.[0-9]\Z")
_LINE_END: Final = re.compile(r"\r?\n")
_END: Final = re.compile(rb"\r?\n\r?\n")
_PORT: Final = re.compile(r":[0-9]*\Z")
_ADDRESS: Final = re.compile(r"\[[0-9A-Fa-f:.]+\]|[0-9.]+")


def is_complete(request: bytes) -> bool:
    """Return whether ``request`` contains all headers of a request."""
    return _END.search(request) is not None


def respond(request: bytes, names: Collection[str] | None, page: Callable[[], str]) -> bytes:
    """Return the response to a complete request. ``page`` returns the page, which is at ``/``.

    If ``names`` is not None, the Host header must contain an address, ``localhost`` or one of these names (in lower
    case). Otherwise, a website could point its own name at this host's loopback address, and a browser here would let
    the website's scripts read the page (DNS rebinding).
    """
    line, *headers = _LINE_END.split(request.decode("latin-1"))
    found = _REQUEST_LINE.match(line)
    if not found:
        return error(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    method, target = found.groups()
    if names is not None and not all(_is_own(host, names) for host in _hosts(headers)):
        return error(HTTPStatus.MISDIRECTED_REQUEST, "the Host header must contain an address or this host's name")
    if target.partition("?")[0] != "/":
        return error(HTTPStatus.NOT_FOUND, "the page is at /")
    if method not in ("GET", "HEAD"):
        return error(HTTPStatus.METHOD_NOT_ALLOWED, "this page can only be read", "Allow: GET, HEAD\r\n")
    return _response(HTTPStatus.OK, page(), PAGE_TYPE, "Cache-Control: no-store\r\n", with_body=method == "GET")


def error(status: HTTPStatus, what: str, headers: str = "") -> bytes:
    """Return the response for a request that is refused. Each line of ``headers`` ends with CRLF."""
    return _response(status, f"{what}\n", "text/plain; charset=utf-8", headers)


def _response(status: HTTPStatus, text: str, kind: str, headers: str, with_body: bool = True) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"X-Content-Type-Options: nosniff\r\n{headers}Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


def _hosts(headers: Collection[str]) -> list[str]:
    fields = (line.partition(":") for line in headers)
    return [value.strip() for name, _, value in fields if name.lower() == "host"]


def _is_own(host: str, names: Collection[str]) -> bool:
    name = _PORT.sub("", host)
    return bool(_ADDRESS.fullmatch(name)) or name.lower().rstrip(".") in ("localhost", *names)
