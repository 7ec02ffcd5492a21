"""Overrides for tests."""

from __future__ import annotations

from lbdns.model.overrides import Override, Overrides


def drains(*members: str, pool: str = "") -> Overrides:
    """Return overrides that drain the members with these full names."""
    return Overrides(tuple(Override("drain", name, pool, by="root", reason="test") for name in members))
