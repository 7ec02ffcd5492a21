"""The report interval of planner tests, and the messages that a planner has logged."""

from __future__ import annotations

import pytest

SHORT = 0.2  # s: report interval; silent after three of them, which a busy machine must not take for one step


def messages(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]
