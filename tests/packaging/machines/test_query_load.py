"""Tests of the load during upgrades: the program that sends queries, its tally, and what counts as a loss."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import lbdns_machines.query_load as module
from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.machine import Machine, MachineError
from lbdns_machines.machine_network import MachineNetwork
from lbdns_machines.machine_plans import QUICK
from lbdns_machines.query_load import LoadFromMachine, describe_tally, main
from lbdns_tools.bench.dns.windowed_load import QueryTally

GOOD = QueryTally(sent=100, answered=100, longest=0.5, seconds=2.0)
#: Flags, and the counts of a question and an answer
ANSWER = b"\x84\0\0\1\0\1\0\0\0\0"
REFUSED = b"\x84\5\0\1\0\0\0\0\0\0"


def test_a_load_without_a_loss_is_described() -> None:
    assert describe_tally(GOOD) == "100 queries in 2 s, 0 lost; longest answer 0.50 s"


@pytest.mark.parametrize(
    ("tally", "message"),
    [
        (replace(GOOD, answered=99, lost=1), "of 100 queries, 99 were answered, 1 lost, and 0 answered unexpectedly"),
        (replace(GOOD, answered=99, unexpected=1), "of 100 queries, 99 were answered, 0 lost, and 1 answered unexpect"),
        (replace(GOOD, answered=99), "of 100 queries, 99 were answered"),
        (QueryTally(), "of 0 queries"),
    ],
)
def test_each_query_must_be_answered(tally: QueryTally, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        describe_tally(tally)


@contextmanager
def server(respond: Callable[[int], bytes], stop_after: int) -> Iterator[tuple[str, int]]:
    """Yield the address of a server that answers its nth query with an ID and ``respond(n)``.

    After the query ``stop_after``, it sends SIGTERM to this process, as the end of a load does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def answer() -> None:
            number = 0
            while (received := sock.recvfrom(512))[0]:
                sock.sendto(received[0][:2] + respond(number), received[1])
                number += 1
                if number == stop_after:
                    os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield sock.getsockname()
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", sock.getsockname())
            thread.join()


@pytest.fixture
def restored_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("restored_handler")
@pytest.mark.parametrize(
    ("respond", "unexpected"),
    [(lambda number: ANSWER, 0), (lambda number: REFUSED if number == 20 else ANSWER, 1)],
    ids=["answers", "refuses one"],
)
def test_the_program_counts_until_sigterm(
    respond: Callable[[int], bytes], unexpected: int,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with server(respond, stop_after=100) as (address, port):
        monkeypatch.setattr(module, "PORT", port)
        main([address, "www.example.net", "1000"])
    first, last = capsys.readouterr().out.splitlines()
    tally = QueryTally(**json.loads(last))
    assert first == "sending"
    assert tally.sent >= 100
    assert (tally.answered, tally.unexpected) == (tally.sent - unexpected, unexpected)


class FakeClient(Machine):
    """A machine whose network is the host's, and which runs ``program`` instead of the load."""

    def __init__(self, program: str, folder: Path) -> None:
        super().__init__(QUICK[2], folder, MachineNetwork(), ControlGroups(), folder / "log")
        self.program = program

    def inside(self, command: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", self.program, *command]


PROGRAM = "import signal, sys; print('sending', flush=True); signal.sigwait([signal.SIGTERM]); print('{output}')"
#: SIGTERM is blocked before the line is printed, so that it cannot end the program before it waits
PROGRAM = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); {PROGRAM}"


def test_the_tally_is_that_of_the_program(tmp_path: Path) -> None:
    client = FakeClient(PROGRAM.replace("{output}", json.dumps(asdict(GOOD))), tmp_path)
    with LoadFromMachine(client, "192.0.2.53", "www.example.net", 500.0) as load:
        assert load.tally == QueryTally()
    assert load.tally == GOOD
    assert load._process.returncode == 0


@pytest.mark.parametrize("program", [PROGRAM.replace("{output}", "Traceback"), "raise SystemExit(1)"])
def test_a_program_without_a_tally_is_an_error(program: str, tmp_path: Path) -> None:
    load = LoadFromMachine(FakeClient(program, tmp_path), "192.0.2.53", "www.example.net", 500.0)
    with pytest.raises(MachineError, match="ended without a tally"), load:
        pass


def test_an_interruption_ends_the_program(tmp_path: Path) -> None:
    load = LoadFromMachine(FakeClient(PROGRAM, tmp_path), "192.0.2.53", "www.example.net", 500.0)
    with pytest.raises(KeyboardInterrupt), load:
        raise KeyboardInterrupt
    assert load._process.returncode == -signal.SIGKILL
