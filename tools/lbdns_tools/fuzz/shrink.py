"""Making an input smaller as long as the same goes wrong: what is kept as a test shows one thing."""

from __future__ import annotations

from lbdns_tools.fuzz.targets import Target, run


def shrunk(target: Target, data: bytes) -> bytes:
    """``data`` without every stretch that it goes wrong without, the longest stretches first.

    Raises ValueError if nothing goes wrong with it.
    """
    wrong = complaint(target, data)
    if wrong is None:
        raise ValueError("nothing goes wrong with this input")
    size = len(data)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if complaint(target, shorter) == wrong:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def complaint(target: Target, data: bytes) -> tuple[str, int] | None:
    """What kind of error an input raises and in which line, or None."""
    try:
        run(target, data)
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        return type(error).__name__, at.tb_lineno if at else 0
    return None
