"""The terminal of a program that draws on the whole of it: taken, and always given back as it was."""

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
from lbdns.errors import LbdnsError

ESCAPE_PAUSE: Final = 0.05  # s from the Escape key to the rest of a sequence, also over a slow line
_DUMB: Final = ("", "dumb", "unknown")


def demand_terminal(console: Console) -> None:
    """Raises LbdnsError where nothing can be drawn, or no key be read."""
    what = "run it in a terminal, or say --once for one frame; 'lbdns status' prints a table"
    if not (sys.stdin.isatty() and console.is_terminal):
        raise LbdnsError(f"top: standard input and output are no terminal; {what}")
    if os.environ.get("TERM", "").lower() in _DUMB:
        raise LbdnsError(f"top: a terminal of the kind TERM={os.environ.get('TERM', '')!r} can't be drawn on; {what}")


class Screen:
    """Draws lines, and reads keys, while it is open."""

    def __init__(self, console: Console, descriptor: int) -> None:
        """``descriptor`` becoming readable ends a wait for keys."""
        self.console = console
        self._descriptor = descriptor
        self._stdin = sys.stdin.fileno()
        self._keys = Keys()
        self._live = Live(console=console, screen=True, auto_refresh=False)

    @contextlib.contextmanager
    def open(self, wake: Callable[[], None]) -> Iterator[None]:
        """Take the terminal. ``wake`` is called when its size changes. SIGTERM and SIGHUP end it as Ctrl-C does."""
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
            # DRAIN keeps what was typed ahead for the shell; a terminal that is gone needs nothing
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)

    def draw(self, lines: Sequence[Text]) -> None:
        self._live.update(Group(*lines), refresh=True)

    def keys(self, timeout: float) -> list[str]:
        """The keys pressed until something happens, at most so long (s). Raises EOFError when the terminal is gone."""
        timeout = ESCAPE_PAUSE if self._keys.is_waiting else timeout
        ready, _, _ = select.select([self._stdin, self._descriptor], [], [], max(0.0, timeout))
        if self._stdin not in ready:
            return [] if ready else self._keys.feed(b"")  # nothing followed: the Escape key
        try:
            data = os.read(self._stdin, 1024)
        except OSError:
            data = b""
        if not data:
            raise EOFError("the terminal is gone")
        return self._keys.feed(data)

    def _pause(self, before: list[Any]) -> None:
        """Ctrl-Z: the shell has the terminal until it lets us go on."""
        self._live.stop()
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)
        os.kill(os.getpid(), signal.SIGSTOP)
        tty.setcbreak(self._stdin)
        self._live.start(refresh=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
