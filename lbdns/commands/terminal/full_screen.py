"""Draw lines on the full screen of a terminal, decode key presses, and always restore the terminal's state."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from lbdns_shared.errors import LbdnsError

ESCAPE_PAUSE: Final = 0.05  # s to wait for the rest of an escape sequence, enough for a slow line
#: The keys as VT100-like terminals send them (ECMA-48; xterm control sequences).
_NAMES: Final[Mapping[bytes, str]] = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[5~": "pageup", b"\x1b[6~": "pagedown",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home", b"\x1b[7~": "home",
    b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end", b"\x1b[8~": "end",
    b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\b": "backspace", b"\x1b": "escape",
}  # fmt: skip
_KEY: Final = re.compile(rb"\x1b\[[^@-~]*[@-~]|\x1bO.|.", re.DOTALL)
_INCOMPLETE: Final = re.compile(rb"\x1b(?:\[[^@-~]*|O)?\Z")
_DUMB: Final = ("", "dumb", "unknown")


def demand_terminal(console: Console) -> None:
    """Raise LbdnsError if standard input and output are not a terminal that can position the cursor."""
    what = "run 'lbdns top' in a terminal, use --once to print one frame, or run 'lbdns status'"
    if not (sys.stdin.isatty() and console.is_terminal):
        raise LbdnsError(f"top: standard input and output must be a terminal; {what}")
    if os.environ.get("TERM", "").lower() in _DUMB:
        raise LbdnsError(
            f"top: the terminal type TERM={os.environ.get('TERM', '')!r} cannot position the cursor; {what}"
        )


class KeyDecoder:
    """A decoder that converts bytes into printable ASCII characters and names of other keys.

    Escape sequences may arrive in pieces.
    """

    def __init__(self) -> None:
        self.pending = b""  # the start of a sequence; if no more bytes follow, it was the Escape key

    def feed(self, data: bytes) -> list[str]:
        """Add ``data`` to the input received so far, and return the key presses that are now complete.

        If ``data`` is empty, an unfinished escape sequence is treated as complete.
        """
        text, self.pending = self.pending + data, b""
        if data and (started := _INCOMPLETE.search(text)):
            text, self.pending = text[: started.start()], started[0]
        return [name for key in _KEY.findall(text) if (name := _name(key))]


def _name(key: bytes) -> str:
    return key.decode() if b" " <= key <= b"~" and len(key) == 1 else _NAMES.get(key, "")


class Screen:
    """A full-screen terminal, which draws lines and reads keys while the screen is open."""

    def __init__(self, console: Console, descriptor: int) -> None:
        """The method ``keys`` stops waiting when ``descriptor`` becomes readable."""
        self.console = console
        self._descriptor = descriptor
        self._stdin = sys.stdin.fileno()
        self._keys = KeyDecoder()
        self._live = Live(console=console, screen=True, auto_refresh=False)

    @contextlib.contextmanager
    def open(self, wake: Callable[[], None]) -> Iterator[None]:
        """Take over the terminal for the duration of a with statement.

        Resizing the terminal calls ``wake``; SIGTERM and SIGHUP act like Ctrl-C.
        """
        before = termios.tcgetattr(self._stdin)
        handlers: dict[signal.Signals, Callable[[int, Any], None]] = {
            signal.SIGWINCH: lambda *_: wake(),
            signal.SIGTERM: _interrupt,
            signal.SIGHUP: _interrupt,
            signal.SIGTSTP: lambda *_: self._pause(before),
        }
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            tty.setcbreak(self._stdin)
            with self._live:
                yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            # DRAIN keeps typed-ahead input for the shell; a closed terminal needs no reset
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)

    def draw(self, lines: Sequence[Text]) -> None:
        self._live.update(Group(*lines), refresh=True)

    def keys(self, timeout: float) -> list[str]:
        """Wait up to ``timeout`` seconds for input, and return the pressed keys.

        Raises EOFError if the terminal is closed.
        """
        timeout = ESCAPE_PAUSE if self._keys.pending else timeout
        ready, _, _ = select.select([self._stdin, self._descriptor], [], [], max(0.0, timeout))
        if self._stdin not in ready:
            return [] if ready else self._keys.feed(b"")  # no more bytes: it was the Escape key
        try:
            data = os.read(self._stdin, 1024)
        except OSError:
            data = b""
        if not data:
            raise EOFError("the terminal was closed")
        return self._keys.feed(data)

    def _pause(self, before: list[Any]) -> None:
        """Handle Ctrl-Z: return the terminal to the shell until the shell resumes this process."""
        self._live.stop()
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)
        os.kill(os.getpid(), signal.SIGSTOP)
        tty.setcbreak(self._stdin)
        self._live.start(refresh=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
