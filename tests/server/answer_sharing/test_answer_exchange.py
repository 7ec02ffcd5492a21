"""What a server publishes of its answers, over a bus that fails at times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.bus.signed_message import MessageKeys
from lbdns.config import load_config
from lbdns.model.other_answers import OtherAnswers
from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.answer_sharing import answer_exchange
from lbdns.server.answer_sharing.answer_exchange import AnswerExchange
from lbdns.server.answer_sharing.answer_messages import MAX_COUNTS, PURPOSE, AnswerMessage, read_answer_message
from lbdns.server.dns_service import Answerer
from tests.collector.collector_fixtures import KEY, until
from tests.config.config_files import ZONE

CONFIG = f'{ZONE}[collector]\nkey_file = "report.key"\n[bus]\nurl = ["nats://127.0.0.1"]\n'


class FakeBus:
    """A bus that records messages, and refuses the publications that ``refuses`` selects by their number."""

    def __init__(self) -> None:
        self.client: object | None = object()
        self.refuses: Callable[[int], bool] = lambda number: False
        self.attempts = 0
        self.messages: list[AnswerMessage] = []

    def subscribe(self, subject: str, receive: object) -> FakeBus:
        return self

    def end(self) -> None:
        pass

    async def publish(self, subject: str, payload: bytes) -> None:
        self.attempts += 1
        if self.refuses(self.attempts):
            raise BusError("no connection")
        self.messages.append(read_answer_message(MessageKeys((KEY,), PURPOSE).open(payload)))


@dataclass
class FakeAnswerer:
    totals: dict[tuple[str, str, str], int] = field(default_factory=dict)
    others: list[OtherAnswers] = field(default_factory=list)

    def answers_by_policy(self) -> dict[tuple[str, str, str], int]:
        return dict(self.totals)

    def count_others(self, found: OtherAnswers) -> None:
        self.others.append(found)


def add(answerer: FakeAnswerer, number: int, members: int) -> None:
    for member in range(members):
        key = ("web", "best", f"m{member}.hobbit")
        answerer.totals[key] = answerer.totals.get(key, 0) + number


def published(bus: FakeBus) -> Counter[tuple[str, str, str]]:
    return sum((Counter(message.counts) for message in bus.messages), Counter())


@pytest.mark.parametrize("refused", [(), (1,), (2,), (3,), (1, 2), (2, 4), (3, 6)])
async def test_each_answer_is_published_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[int, ...]
) -> None:
    """``refused`` are the publications that fail; the first counts fill three messages."""
    monkeypatch.setattr(answer_exchange, "SHARING", DutyCycle(1.0, shortest=0.001))
    path = tmp_path / "lbdns.toml"
    path.write_text(CONFIG)
    bus, answerer = FakeBus(), FakeAnswerer()
    bus.refuses = refused.__contains__
    exchange = AnswerExchange(cast(BusConnection, bus), cast(Answerer, answerer), load_config(path), (KEY,))
    exchange.start()
    try:
        add(answerer, 3, 2 * MAX_COUNTS + 1)
        await until(lambda: published(bus) == answerer.totals)
        add(answerer, 2, 5)
        await until(lambda: published(bus) == answerer.totals)
        seen = len(bus.messages)
        await until(lambda: len(bus.messages) > seen + 2)
        assert published(bus) == answerer.totals
    finally:
        await exchange.stop()
    numbers = [message.seq for message in bus.messages]
    assert numbers == sorted(set(range(1, bus.attempts + 1)) - set(refused))[: len(numbers)]
