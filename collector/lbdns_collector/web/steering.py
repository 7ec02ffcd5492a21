"""Steering: HTTP requests that drain, force and weight members, if ``[web] steer`` permits them.

A browser sends a site's password along with requests that another site's scripts make (cross-site request forgery). A
request for steering must therefore have a special header. Scripts of another site can set this header only if the
server permits it (CORS), and this server never does. If the browser states the request's origin, that origin must be
this server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from lbdns_collector.status.status_document import to_json
from lbdns_collector.web.app_keys import ACCESS, SOURCE
from lbdns_collector.web.gated_connection import connection_of
from lbdns_collector.web.http_responses import error
from lbdns_collector.web.refusal import JSON
from lbdns_shared.errors import LastMemberError, LbdnsError, UnknownNameError

HEADER: Final = "X-Lbdns-Steer"
#: Path -> command; the parameters are the other fields of the control socket's command
PATHS: Final = {f"/api/v1/{command}": command for command in ("drain", "undrain", "force", "weight")}
_NUMBERS: Final = ("for_s", "factor")
_FLAGS: Final = ("force", "ahead")


async def steer(request: web.Request) -> web.Response:
    """Carry out an override command, and send the reply. The request has already been admitted."""
    steering, access = request.app[SOURCE].steering, request.app[ACCESS]
    command = PATHS[request.path]
    if steering is None:
        return error(404, "this program does not select members; send the request to the DNS server")
    if not access.steer:
        what = f"steering over HTTP is off; use the command 'lbdns {command}', or set [web] steer = true"
        return error(403, what)
    if why := refusal(request.headers, request.host):
        access.refuse("steering", request.remote or "", why)
        return error(403, why)
    if not connection_of(request).is_private:
        return error(403, "steering from another machine requires HTTPS")
    if request.body_exists:
        return error(400, f"send the parameters in the URL, for example {request.path}?member=frodo, without a body")
    by = access.credentials.steerer(request.headers.get("Authorization", ""))
    try:
        fields = {"command": command, **parameters(request)}
        reply = await steering(fields, f"{by} (web, {request.remote})")
    except LastMemberError as wrong:
        body = to_json({"error": f"{wrong}; to proceed, add force=true", "force": True})
        return web.Response(status=409, body=body, content_type=JSON)
    except UnknownNameError as wrong:
        return error(404, str(wrong))
    except LbdnsError as wrong:
        return error(400, str(wrong))
    return web.Response(body=to_json(reply), content_type=JSON)


def refusal(headers: Mapping[str, str], host: str) -> str:
    """Return the reason why a request may come from another site, or an empty string if it cannot.

    ``host`` is the value of the Host header. Pure.
    """
    if HEADER not in headers:
        return f"a steering request must have the header '{HEADER}: 1'"
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return "another site made the browser send this request"
    origin = headers.get("Origin")
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        return f"the request comes from another site: {origin[:100]!r}"
    return ""


def parameters(request: web.Request) -> dict[str, Any]:
    """Return the parameters of a request, as the fields of a control command. Raises LbdnsError."""
    found: dict[str, Any] = {}
    for name, text in request.query.items():
        if name == "command":
            raise LbdnsError("command: omit this parameter, because the path already contains the command")
        if name in found:
            raise LbdnsError(f"{name[:50]}: the parameter occurs twice")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    if name in _NUMBERS:
        try:
            return float(text)
        except ValueError:
            return text  # the command's own error says what is wrong
    if name in _FLAGS and text in ("true", "false"):
        return text == "true"
    return text
