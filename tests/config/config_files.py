"""Tables of lbdns.toml that tests use, and the type of a function that loads a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable

from lbdns.config import Config

Load = Callable[[str], Config]


def pool_table(*members: str, name: str = "web", zone: str = "hobbit", more: str = "") -> str:
    """Return a [[pool]] table with these members, or with gandalf; ``more`` contains further lines of the table."""
    names = json.dumps(members or ("gandalf",))
    return f'[[pool]]\nname = {json.dumps(name)}\nzone = "{zone}"\nmembers = {names}\n' + (f"{more}\n" if more else "")


ZONE = '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'
POOL = pool_table()
