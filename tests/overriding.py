"""Orders as people give them, for tests of what goes by them."""

from __future__ import annotations

from lbdns.overrides import Override, Overrides


def drains(*members: str, pool: str = "") -> Overrides:
    """These, by full name, are drained."""
    return Overrides(tuple(Override("drain", name, pool, by="root", reason="test") for name in members))
