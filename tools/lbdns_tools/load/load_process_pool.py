"""The pool of load processes: start them, let them begin together, collect their results, and end them all."""

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

from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.load_plan import LoadRun, split_run
from lbdns_tools.load.load_process import LoadAssignment, message_bytes
from lbdns_tools.load.load_progress import LoadProgress, done
from lbdns_tools.load.process_measurements import ProcessMeasurement, RunResult, combine, read_measurement

READY_S: Final = 60.0  # until all processes are ready; each starts an interpreter, maybe on a busy machine
SILENCE_S: Final = 60.0  # without a message from a process, which sends four per second
STOP_S: Final = 5.0  # that a process may take to send its result after a stop message
_AHEAD_S: Final = 0.02  # between the message to begin and the beginning, so that all processes receive it
_AHEAD_EACH_S: Final = 0.002  # added for each process
_MESSAGES: Final = 2**28  # bytes; a tally has about ten thousand


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """Where a load process runs: a prefix for its command, such as one that enters a network namespace, and the local
    addresses it connects from, in turn. The prefix must exec the command, not start it as a child."""

    before: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class _LoadProcess:
    """One load process and the messages received from it."""

    def __init__(self, number: int, order: LoadAssignment, before: Sequence[str], errors: IO[bytes]) -> None:
        self.number = number
        self._errors = errors
        self._unpacker = msgpack.Unpacker(max_buffer_size=_MESSAGES, strict_map_key=False)
        command = [*before, sys.executable, "-m", "lbdns_tools.load.load_process"]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which then collects the results
            )
        except OSError as error:
            raise LbdnsError(f"load process {number} cannot be started: {command[0]}: {error.strerror}") from None
        self.is_ready = False
        self.progress = (0, 0, 0)
        self.measured: ProcessMeasurement | None = None
        self.say(order)

    def say(self, message: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which reading its output will show
            self.process.stdin.write(message_bytes(message))
            self.process.stdin.flush()

    def hear(self) -> bool:
        """Read the available messages; return False at the end of its output. Raises LbdnsError."""
        assert self.process.stdout is not None
        data = self.process.stdout.read1(2**16)  # type: ignore[attr-defined]
        self._unpacker.feed(data)
        for what, content in self._unpacker:
            self._understand(what, content)
        if not data and self.measured is None:
            status = self.process.wait(STOP_S)
            raise LbdnsError(f"load process {self.number} ended early, with {_how(status)}{self._why()}")
        return bool(data)

    def _understand(self, what: str, content: Any) -> None:
        match what:
            case "ready":
                self.is_ready = True
            case "progress":
                self.progress = (content[0], content[1], content[2])
            case "done":
                self.measured = read_measurement(content)
            case "error":
                raise LbdnsError(content)

    def _why(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def end(self) -> None:
        """End the process if it is still running."""
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
    run: LoadRun,
    processes: int,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    places: Sequence[LoadPlace] = (),
) -> RunResult:
    """Run ``run`` in several processes and return the result; Ctrl-C ends it early with the result up to then.

    The processes are assigned to ``places`` in turn. Without places they run here, and the kernel chooses the source
    addresses. Raises LbdnsError.
    """
    if processes < 1:
        raise LbdnsError(f"the number of processes must be at least 1, not {processes}")
    with ExitStack() as stack:
        crew = []
        for number, part in enumerate(split_run(run, processes)):
            errors = stack.enter_context(tempfile.TemporaryFile())
            place = places[number % len(places)] if places else LoadPlace()
            crew.append(
                _LoadProcess(number + 1, LoadAssignment(part, number, processes, place.sources), place.before, errors)
            )
            stack.callback(crew[-1].end)
        listening = stack.enter_context(_ProcessReader(crew))
        return _conduct(run, crew, listening, on_progress)


def _conduct(
    run: LoadRun, crew: list[_LoadProcess], listening: _ProcessReader, on_progress: Callable[[LoadProgress], None]
) -> RunResult:
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
    return combine(run, [member.measured for member in crew if member.measured], stopped_at)


def _collect(crew: list[_LoadProcess], listening: _ProcessReader) -> None:
    """Stop all processes and read their results. Raises LbdnsError if one does not stop in time."""
    for member in crew:
        member.say("stop")
    end = time.monotonic() + STOP_S
    for _ in listening.words(lambda: all(member.measured for member in crew)):
        if time.monotonic() > end:
            raise LbdnsError(f"a load process did not stop within {STOP_S:g} s; its result is lost")


def _progress(run: LoadRun, crew: list[_LoadProcess], begin: float) -> LoadProgress:
    requests, failed, under_way = (sum(member.progress[place] for member in crew) for place in range(3))
    elapsed_s = max(0.0, time.monotonic() - begin)
    return LoadProgress(run.label, done(run, elapsed_s, requests), elapsed_s, requests, failed, under_way)


class _ProcessReader:
    """Reads the messages of all processes."""

    def __init__(self, crew: list[_LoadProcess]) -> None:
        self._selector = selectors.DefaultSelector()
        self._heard = {member.number: time.monotonic() for member in crew}
        for member in crew:
            assert member.process.stdout is not None
            self._selector.register(member.process.stdout, selectors.EVENT_READ, member)

    def __enter__(self) -> _ProcessReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()

    def words(self, until: Callable[[], bool]) -> Iterator[None]:
        """Read messages until ``until()`` is true; yield at least once per second. Raises LbdnsError."""
        while not until():
            for key, _ in self._selector.select(1.0):
                member: _LoadProcess = key.data
                self._heard[member.number] = time.monotonic()
                if not member.hear():
                    self._selector.unregister(key.fileobj)
            for key in self._selector.get_map().values():
                number = key.data.number
                if time.monotonic() > self._heard[number] + SILENCE_S:
                    raise LbdnsError(f"load process {number} sent nothing for {SILENCE_S:g} s")
            yield
