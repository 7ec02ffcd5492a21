"""Decode the bytes that a terminal sends for pressed keys. Sans-I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Sequences after the escape character, as VT100-like terminals send them (ECMA-48; xterm control sequences).
_SEQUENCES: Final[Mapping[bytes, str]] = {
    b"[A": "up", b"[B": "down", b"OA": "up", b"OB": "down",
    b"[5~": "pageup", b"[6~": "pagedown",
    b"[H": "home", b"[F": "end", b"OH": "home", b"OF": "end", b"[1~": "home", b"[4~": "end", b"[7~": "home",
    b"[8~": "end",
}  # fmt: skip
_ALONE: Final[Mapping[int, str]] = {0x0D: "enter", 0x0A: "enter", 0x7F: "backspace", 0x08: "backspace"}
_ESCAPE: Final = 0x1B


class Keys:
    """Bytes in, keys out: printable ASCII characters, other keys by name. A sequence may arrive in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_waiting(self) -> bool:
        """Return whether a sequence has begun; if no more bytes follow, it was the Escape key."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys completed by ``data``. Empty data ends a sequence that has begun."""
        at, found = 0, []
        text, self._rest = self._rest + data, b""
        while at < len(text):
            if text[at] != _ESCAPE:
                if name := _ALONE.get(text[at]) or (chr(text[at]) if 0x20 <= text[at] < 0x7F else ""):
                    found.append(name)
                at += 1
                continue
            end = _sequence_end(text, at + 1)
            if end is None and data:
                self._rest = text[at:]
                break
            if end is None or end == at + 1:
                found.append("escape")
                at += 1
                continue
            if name := _SEQUENCES.get(text[at + 1 : end], ""):
                found.append(name)
            at = end
        return found


def _sequence_end(text: bytes, at: int) -> int | None:
    """Return where the sequence after an escape character ends: ``at`` if there is none, None if incomplete."""
    if at == len(text):
        return None
    if text[at] == ord("O"):
        return at + 2 if at + 1 < len(text) else None
    if text[at] != ord("["):
        return at
    for end in range(at + 1, len(text)):
        if 0x40 <= text[end] <= 0x7E:
            return end + 1
    return None
