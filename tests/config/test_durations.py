"""Tests of settings that are durations: their notation, their range and their errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lbdns.config.toml_reader import read_toml
from lbdns.config.value_readers import duration, read_fields
from lbdns_shared.errors import ConfigError


@dataclass(frozen=True)
class Pauses:
    short: float = duration(90.0, 0.0, 3600.0)
    none: float = duration(0.0, 0.0, 60.0)
    long: float = duration(600.0, 60.0, 7200.0)


def read(tmp_path: Path, text: str) -> Pauses:
    (tmp_path / "farm.toml").write_text(text)
    root = read_toml(tmp_path / "farm.toml")
    found = read_fields(Pauses, root)
    root.findings.raise_if_any()
    return found


def test_durations(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Pauses() == Pauses(90.0, 0.0, 600.0)
    assert read(tmp_path, 'short = "0"\nnone = "15s"\nlong = "1h30min"') == Pauses(0.0, 15.0, 5400.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('short = "soon"', "farm.toml:1: short: 'soon' is not a valid duration; write a duration such as 90s"),
        ('short = "2h"', "farm.toml:1: short: must be from 0 to 1h, not '2h'"),
        ('\nlong = "1s"', "farm.toml:2: long: must be from 1min to 2h, not '1s'"),
        ("short = 5", "farm.toml:1: short: must be a string, not 5"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
