"""Formats a number with its noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return ``number`` and ``noun`` as text. The noun ends in s unless the number is 1: ``2 zones``. Pure."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
