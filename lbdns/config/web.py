"""``[web]``: where the pages are."""

from __future__ import annotations

from lbdns.config.reading import section
from lbdns.endpoint import HTTP_PORT, Endpoint, parse_listen
from lbdns.toml_table import Table


def read_web(root: Table) -> Endpoint | None:
    """Where HTTP is served; ``listen = "off"`` serves none."""
    table = section(root, "web")
    default = Endpoint("127.0.0.1", HTTP_PORT)
    text = table.string("listen", str(default))
    table.end()
    if text == "off":
        return None
    try:
        return parse_listen(text, HTTP_PORT)
    except ValueError as error:
        table.wrong("listen", f'{error}; or "off"')
        return default
