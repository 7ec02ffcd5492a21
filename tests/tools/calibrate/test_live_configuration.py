"""Checks that a live server's configuration is changed for each trial and always restored."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from lbdns.config import load_config
from lbdns.scores.score import Term
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.calibrate import live_configuration
from lbdns_tools.calibrate.calibration_trial import BASE, CalibrationTrial, alone
from lbdns_tools.calibrate.live_configuration import LiveConfiguration, with_trial
from tests.config.config_files import ZONE, pool_table

NAMES = 'names = { www = "best", turns = "round_robin", literal = "best_score" }'
TEXT = f"""\
# Mine, with remarks that must survive
{ZONE}{pool_table("frodo", more=NAMES)}[collector]
score = "calm"
shadow_score = "thesis"
adapt = true
[score.calm]
cpu_idle = {{ weight = 1, limit = 100 }}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


@pytest.fixture
def reloads(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list. Every reload appends the configuration file's current values to the list."""
    found: list[dict[str, Any]] = []

    def order(control: Path, command: str) -> None:
        assert command == "reload"
        found.append(tomllib.loads(path.read_text()))

    monkeypatch.setattr(live_configuration, "send_command", order)
    return found


def test_lbdns_accepts_the_configuration_of_a_trial(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfiguration(path)
    with live.kept():
        live.set(alone("run_queue"))
        config = load_config(path)
        assert config.pools[0].names == {"www": "best_score", "turns": "round_robin", "literal": "best_score"}
        assert config.collector.score == "calibration-trial"
        assert config.scores["calibration-trial"] == alone("run_queue").terms
        assert not config.collector.adapt
        assert config.collector.shadow_score == ""
        live.set(BASE)
        config = load_config(path)
        assert set(config.pools[0].names.values()) == {"round_robin"}
        assert config.collector.score == "thesis"
    assert path.read_text() == TEXT
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(reloads) == 3
    assert reloads[-1] == tomllib.loads(TEXT)
    assert not live.copy.exists()


def test_a_pool_without_names_has_the_default_names() -> None:
    changed = with_trial({"pool": [{"name": "web"}]}, CalibrationTrial("x", "best", {"load1": Term(1, 2, "low")}))
    assert changed["pool"][0]["names"] == {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
    assert changed["score"]["calibration-trial"]["load1"]["weight"] == 1


def test_the_file_is_restored_after_an_interruption(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfiguration(path)

    def interrupted_trial() -> None:
        with live.kept():
            live.set(BASE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_trial()
    assert path.read_text() == TEXT
    assert reloads[-1] == tomllib.loads(TEXT)


def test_the_file_is_restored_if_the_server_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def order(control: Path, command: str) -> None:
        raise LbdnsError("refused")

    monkeypatch.setattr(live_configuration, "send_command", order)
    live = LiveConfiguration(path)
    with pytest.raises(LbdnsError, match="is restored, but the server did not reload it: refused"), live.kept():
        live.set(BASE)
    assert path.read_text() == TEXT


def test_a_copy_from_a_killed_calibration_is_not_overwritten(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfiguration(path)
    live.copy.write_text("what it was before\n")
    with pytest.raises(ConfigError, match=r"was killed.*mv .*before-calibration"), live.kept():
        pass
    assert live.copy.read_text() == "what it was before\n"
    assert reloads == []


def test_a_farm_without_a_score_can_not_be_calibrated(path: Path) -> None:
    path.write_text(TEXT.replace('"best"', '"weighted"').replace('"best_score"', '"weighted"'))
    with pytest.raises(ConfigError, match="one name has the policy 'best' or 'best_score'"):
        LiveConfiguration(path)


def test_a_follower_can_not_be_calibrated(path: Path) -> None:
    path.write_text(TEXT.replace("adapt = true", 'connect = "http://127.0.0.1:8053"'))
    with pytest.raises(ConfigError, match="use that collector's configuration file"):
        LiveConfiguration(path)
