"""Tests of the next answers that a worker tells: at most one request is open, and old replies are not shown."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns.server.workers.upcoming_answers import KEPT, PATIENCE, UpcomingAnswers

BEST = {"best": {"members": ["bilbo"], "why": "highest score"}}
OTHER = {"best": {"members": ["frodo"], "why": "highest score"}}


class Asked:
    """Requests to workers, in virtual time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[tuple[int, str]] = []
        self.has_worker = True
        self.answers = UpcomingAnswers(self._ask, lambda: self.now)

    def _ask(self, number: int, pool: str) -> bool:
        if self.has_worker:
            self.sent.append((number, pool))
        return self.has_worker

    def reply(self, reply: dict[str, Any]) -> None:
        self.answers.take(self.sent[-1][0], reply)


def test_a_status_shows_the_reply_to_the_request_before() -> None:
    asked = Asked()
    assert asked.answers.read("web") == {}
    asked.reply(BEST)
    assert asked.answers.read("web") == BEST
    asked.reply(OTHER)
    assert asked.answers.read("web") == OTHER
    assert [pool for _, pool in asked.sent] == ["web"] * 3


def test_one_request_is_open_at_a_time_and_every_pool_has_its_turn() -> None:
    asked = Asked()
    for pool in ("a", "b", "a", "c", "b"):
        assert asked.answers.read(pool) == {}
    assert asked.sent == [(1, "a")]
    for _ in range(4):
        asked.reply(BEST)
    assert [pool for _, pool in asked.sent] == ["a", "b", "a", "c"]
    assert asked.answers.read("c") == BEST


def test_a_lost_reply_is_requested_again() -> None:
    asked = Asked()
    asked.answers.read("web")
    asked.now += PATIENCE - 0.01
    asked.answers.read("web")
    assert len(asked.sent) == 1
    asked.now += 0.02
    asked.answers.read("web")
    assert len(asked.sent) == 2
    asked.answers.take(asked.sent[0][0], OTHER)
    assert asked.answers.read("web") == {}, "a reply to an older request"
    asked.reply(BEST)
    assert asked.answers.read("web") == BEST


@pytest.mark.parametrize(("age", "expected"), [(KEPT - 0.1, BEST), (KEPT + 0.1, {})])
def test_old_replies_are_not_shown(age: float, expected: dict[str, Any]) -> None:
    asked = Asked()
    asked.answers.read("web")
    asked.reply(BEST)
    asked.now += age
    assert asked.answers.read("web") == expected


def test_without_a_worker_nothing_is_kept() -> None:
    asked = Asked()
    asked.has_worker = False
    assert asked.answers.read("web") == {}
    asked.has_worker = True
    asked.answers.read("web")
    assert len(asked.sent) == 1


def test_another_configuration_forgets_all() -> None:
    asked = Asked()
    asked.answers.read("web")
    asked.reply(BEST)
    asked.answers.read("web")
    asked.answers.forget()
    asked.reply(BEST)
    assert asked.answers.read("web") == {}
