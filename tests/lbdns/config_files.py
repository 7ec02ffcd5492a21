"""What many tests of lbdns.toml put into it, and the type of what loads it."""

from __future__ import annotations

from collections.abc import Callable

from lbdns.config import Config

Load = Callable[[str], Config]

ZONE = '[[zone]]\nname = "hobbit"\nfile = "hobbit.zone"\n'
POOL = '[[pool]]\nname = "web"\nzone = "hobbit"\nmembers = ["gandalf"]\n'
