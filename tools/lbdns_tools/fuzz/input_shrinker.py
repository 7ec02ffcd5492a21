"""Shrinks an input as long as it fails in the same way, so that a test shows one failure only."""

from __future__ import annotations

from lbdns_tools.fuzz.fuzz_targets import FuzzTarget, run_target


def shrink_input(target: FuzzTarget, data: bytes) -> bytes:
    """Remove pieces of ``data``, the longest first, as long as it fails in the same way, and return the rest.

    Raises ValueError if the input does not fail.
    """
    expected = failure(target, data)
    if expected is None:
        raise ValueError("this input does not fail")
    size = len(data)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if failure(target, shorter) == expected:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def failure(target: FuzzTarget, data: bytes) -> tuple[str, int] | None:
    """Return type and line of the error that an input raises, or None."""
    try:
        run_target(target, data)
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        return type(error).__name__, at.tb_lineno if at else 0
    return None
