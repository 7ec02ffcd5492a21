"""Many processes that load together: started, let off at one moment, collected, and never left behind."""

from __future__ import annotations

import contextlib
import math
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, Final

import msgpack

from lbdns.errors import LbdnsError
from lbdns_tools.load.measured import Measured, Result, read_measured, together
from lbdns_tools.load.plan import Run, split
from lbdns_tools.load.progress import Progress, done
from lbdns_tools.load.worker import Order, order_bytes

READY_S: Final = 60.0  # until all processes are there: an interpreter each, on a busy machine
SILENCE_S: Final = 60.0  # without a word from a process, which speaks four times a second
STOP_S: Final = 5.0  # for telling what was measured, after it was told to stop
_AHEAD_S: Final = 0.02  # between the word to begin and the beginning: for everybody to have heard it
_AHEAD_EACH_S: Final = 0.002  # more of it for each process
_MESSAGES: Final = 2**28  # bytes; a tally has some ten thousand


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """Where a load process runs: what stands ``before`` its command, such as a namespace to enter, and the local
    addresses it connects from, in turn. What stands before has to become the command (exec), not start it."""

    before: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class _Member:
    """One process and what it has said."""

    def __init__(self, number: int, order: Order, before: Sequence[str], errors: IO[bytes]) -> None:
        self.number = number
        self._errors = errors
        self._unpacker = msgpack.Unpacker(max_buffer_size=_MESSAGES, strict_map_key=False)
        command = [*before, sys.executable, "-m", "lbdns_tools.load.worker"]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for this process alone, which asks the others for what they have
            )
        except OSError as error:
            raise LbdnsError(f"load process {number} can't be started: {command[0]}: {error.strerror}") from None
        self.is_ready = False
        self.progress = (0, 0, 0)
        self.measured: Measured | None = None
        self.say(order)

    def say(self, message: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and reading its output says so
            self.process.stdin.write(order_bytes(message))
            self.process.stdin.flush()

    def hear(self) -> bool:
        """Read what it says; False when it has nothing more to say. Raises LbdnsError."""
        assert self.process.stdout is not None
        data = self.process.stdout.read1(2**16)  # type: ignore[attr-defined]
        self._unpacker.feed(data)
        for what, content in self._unpacker:
            self._understand(what, content)
        if not data and self.measured is None:
            status = self.process.wait(STOP_S)
            raise LbdnsError(f"load process {self.number} ended before it was done, with {_how(status)}{self._why()}")
        return bool(data)

    def _understand(self, what: str, content: Any) -> None:
        match what:
            case "ready":
                self.is_ready = True
            case "progress":
                self.progress = (content[0], content[1], content[2])
            case "done":
                self.measured = read_measured(content)
            case "error":
                raise LbdnsError(content)

    def _why(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def end(self) -> None:
        """End the process, if it hasn't ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def run(
    run: Run,
    processes: int,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    places: Sequence[LoadPlace] = (),
) -> Result:
    """Do a run in so many processes. Ctrl-C ends it early, and what was measured until then is the result.

    The processes are dealt out to ``places`` in turn; none means here, from addresses of the kernel's choice.
    Raises LbdnsError.
    """
    if processes < 1:
        raise LbdnsError(f"{processes} processes can't load anything")
    with ExitStack() as stack:
        crew = []
        for number, part in enumerate(split(run, processes)):
            errors = stack.enter_context(tempfile.TemporaryFile())
            place = places[number % len(places)] if places else LoadPlace()
            crew.append(_Member(number + 1, Order(part, number, processes, place.sources), place.before, errors))
            stack.callback(crew[-1].end)
        listening = stack.enter_context(_Listening(crew))
        return _conduct(run, crew, listening, on_progress)


def _conduct(run: Run, crew: list[_Member], listening: _Listening, on_progress: Callable[[Progress], None]) -> Result:
    stopped_at = math.inf
    end = time.monotonic() + READY_S
    for _ in listening.words(lambda: all(member.is_ready for member in crew)):
        if time.monotonic() > end:
            raise LbdnsError(f"the load processes were not ready within {READY_S:g} s")
    begin = time.monotonic() + _AHEAD_S + _AHEAD_EACH_S * len(crew)
    for member in crew:
        member.say(begin)
    try:
        for _ in listening.words(lambda: all(member.measured for member in crew)):
            on_progress(_progress(run, crew, begin))
    except KeyboardInterrupt:
        stopped_at = max(0.0, time.monotonic() - begin)
        _collect(crew, listening)
    on_progress(_progress(run, crew, begin))
    return together(run, [member.measured for member in crew if member.measured], stopped_at)


def _collect(crew: list[_Member], listening: _Listening) -> None:
    """Have everybody stop and tell what they have."""
    for member in crew:
        member.say("stop")
    end = time.monotonic() + STOP_S
    for _ in listening.words(lambda: all(member.measured for member in crew)):
        if time.monotonic() > end:
            raise LbdnsError(f"a load process did not stop within {STOP_S:g} s; nothing is known of what it measured")


def _progress(run: Run, crew: list[_Member], begin: float) -> Progress:
    requests, failed, under_way = (sum(member.progress[place] for member in crew) for place in range(3))
    elapsed_s = max(0.0, time.monotonic() - begin)
    return Progress(run.label, done(run, elapsed_s, requests), elapsed_s, requests, failed, under_way)


class _Listening:
    """Hears all processes at once."""

    def __init__(self, crew: list[_Member]) -> None:
        self._selector = selectors.DefaultSelector()
        self._heard = {member.number: time.monotonic() for member in crew}
        for member in crew:
            assert member.process.stdout is not None
            self._selector.register(member.process.stdout, selectors.EVENT_READ, member)

    def __enter__(self) -> _Listening:
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()

    def words(self, until: Callable[[], bool]) -> Iterator[None]:
        """Hear them until that is so; comes back at least once a second. Raises LbdnsError."""
        while not until():
            for key, _ in self._selector.select(1.0):
                member: _Member = key.data
                self._heard[member.number] = time.monotonic()
                if not member.hear():
                    self._selector.unregister(key.fileobj)
            for key in self._selector.get_map().values():
                number = key.data.number
                if time.monotonic() > self._heard[number] + SILENCE_S:
                    raise LbdnsError(f"load process {number} said nothing for {SILENCE_S:g} s")
            yield
