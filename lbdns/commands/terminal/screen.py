"""Draw on the whole terminal and read keys from it; always restore the terminal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from lbdns.commands.terminal.keys import Keys
from lbdns_shared.errors import LbdnsError

ESCAPE_PAUSE: Final = 0.05  # s to wait for the rest of an escape sequence, enough for a slow line
_DUMB: Final = ("", "dumb", "unknown")


def demand_terminal(console: Console) -> None:
    """Raise LbdnsError if standard input and output are not a terminal that can be drawn on."""
    what = "run it in a terminal, or use --once for one frame; 'lbdns status' prints a table"
    if not (sys.stdin.isatty() and console.is_terminal):
        raise LbdnsError(f"top: standard input and output must be a terminal; {what}")
    if os.environ.get("TERM", "").lower() in _DUMB:
        raise LbdnsError(f"top: the terminal TERM={os.environ.get('TERM', '')!r} cannot position the cursor; {what}")


class Screen:
    """Draws lines and reads keys while it is open."""

    def __init__(self, console: Console, descriptor: int) -> None:
        """``descriptor``: a wait for keys ends when it becomes readable."""
        self.console = console
        self._descriptor = descriptor
        self._stdin = sys.stdin.fileno()
        self._keys = Keys()
        self._live = Live(console=console, screen=True, auto_refresh=False)

    @contextlib.contextmanager
    def open(self, wake: Callable[[], None]) -> Iterator[None]:
        """Use the terminal. ``wake`` is called when its size changes. SIGTERM and SIGHUP act like Ctrl-C."""
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
        """Return the keys pressed, waiting at most ``timeout`` seconds. Raises EOFError if the terminal was closed."""
        timeout = ESCAPE_PAUSE if self._keys.is_waiting else timeout
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
        """Handle Ctrl-Z: give the terminal to the shell until it continues this process."""
        self._live.stop()
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)
        os.kill(os.getpid(), signal.SIGSTOP)
        tty.setcbreak(self._stdin)
        self._live.start(refresh=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
