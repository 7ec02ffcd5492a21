"""Tests of the check of upgrades: the client that counts lost queries, and what the check reads from its machine."""

from __future__ import annotations

import importlib.util
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

import dns.message
import pytest

from lbdns_packaging.upgrade_check import last_line, results
from tests.needs import needs

CLIENT: Final = Path(__file__).parents[2] / "packaging" / "checks" / "query_load.py"
#: A response without an error: flags, and the counts of a question and an answer
GOOD: Final = b"\x84\0\0\1\0\1\0\0\0\0"
REFUSED: Final = b"\x84\5\0\1\0\0\0\0\0\0"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("query_load", CLIENT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LAST_ANSWERS", 5.0)
    return module


@contextmanager
def server(respond: Callable[[int], bytes | None]) -> Iterator[tuple[str, int]]:
    """Yield the address of a server that answers its nth query with an ID and ``respond(n)``, or not at all."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def answer() -> None:
            number = 0
            while (received := sock.recvfrom(512))[0]:
                if response := respond(number):
                    sock.sendto(received[0][:2] + response, received[1])
                number += 1

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield sock.getsockname()
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", sock.getsockname())
            thread.join()


def test_the_query_is_valid(client: ModuleType) -> None:
    (question,) = dns.message.from_wire(b"\0\1" + client.QUESTION).question
    assert str(question) == "best.example.com. IN A"


@needs(root=True)  # for a large receive buffer
@pytest.mark.parametrize(
    ("respond", "is_good"),
    [
        (lambda number: GOOD, True),
        (lambda number: None if number == 20 else GOOD, False),
        (lambda number: REFUSED if number == 20 else GOOD, False),
    ],
)
def test_each_query_must_be_answered(
    respond: Callable[[int], bytes | None], is_good: bool, client: ModuleType, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with server(respond) as address:
        monkeypatch.setattr(client, "SERVER", address)
        load = client.QueryLoad(1000.0)

        def stop() -> None:
            while load.counts["sent"] < 100:
                threading.Event().wait(0.01)
            load.goes_on = False

        stopper = threading.Thread(target=stop)
        stopper.start()
        assert load.run(tmp_path / "ready") is is_good
        stopper.join()
    assert (tmp_path / "ready").exists()
    counts = json.loads(capsys.readouterr().out)
    assert counts["sent"] >= 100
    assert counts["answered"] + counts["lost"] + counts["unexpected"] == counts["sent"]
    assert counts["answered"] == counts["sent"] - (not is_good)


def test_results_are_the_marked_lines() -> None:
    log = "+ echo RESULT upgrade, 4 s: {}\nRESULT upgrade, 4 s: {}\nnone\nRESULT reload, 1 s: {}\n"
    assert results(log) == ["upgrade, 4 s: {}", "reload, 1 s: {}"]


@pytest.mark.parametrize(
    ("console", "line"), [("", "no output"), ("one\n\x1b[0;31mtwo\x1b[0m\r\n\n", "two"), ("\x1b[2J", "no output")]
)
def test_the_reason_is_the_last_line(console: str, line: str) -> None:
    assert last_line(console) == line
