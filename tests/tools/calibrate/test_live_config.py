"""A live configuration, changed for a trial and always put back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from lbdns.config import Term, load_config
from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools.calibrate import live_config
from lbdns_tools.calibrate.live_config import LiveConfig, with_trial
from lbdns_tools.calibrate.trial import BASE, Trial, alone

TEXT = """\
# Mine, with remarks that must survive
[[zone]]
name = "hobbit"
file = "hobbit.zone"
[[pool]]
name = "web"
zone = "hobbit"
members = ["frodo"]
names = { www = "best", turns = "round_robin", literal = "best_score" }
[collector]
score = "calm"
shadow_score = "thesis"
adapt = true
[score.calm]
cpu_idle = { weight = 1, limit = 100 }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


@pytest.fixture
def reloads(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a server that is told to reload finds in the file."""
    found: list[dict[str, Any]] = []

    def order(control: Path, command: str) -> None:
        assert command == "reload"
        found.append(tomllib.loads(path.read_text()))

    monkeypatch.setattr(live_config, "order", order)
    return found


def test_a_trial_is_a_configuration_that_lbdns_reads(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfig(path)
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


def test_a_pool_without_names_has_those_of_the_default() -> None:
    changed = with_trial({"pool": [{"name": "web"}]}, Trial("x", "best", {"load1": Term(1, 2, "low")}))
    assert changed["pool"][0]["names"] == {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
    assert changed["score"]["calibration-trial"]["load1"]["weight"] == 1


def test_whatever_happens_the_file_is_put_back(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfig(path)

    def interrupted_trial() -> None:
        with live.kept():
            live.set(BASE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_trial()
    assert path.read_text() == TEXT
    assert reloads[-1] == tomllib.loads(TEXT)


def test_a_server_that_refuses_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def order(control: Path, command: str) -> None:
        raise LbdnsError("refused")

    monkeypatch.setattr(live_config, "order", order)
    live = LiveConfig(path)
    with pytest.raises(LbdnsError, match="is as it was before, but the server did not read it: refused"), live.kept():
        live.set(BASE)
    assert path.read_text() == TEXT


def test_after_a_calibration_that_was_killed_nothing_is_overwritten(path: Path, reloads: list[dict[str, Any]]) -> None:
    live = LiveConfig(path)
    live.copy.write_text("what it was before\n")
    with pytest.raises(ConfigError, match=r"was killed.*mv .*before-calibration"), live.kept():
        pass
    assert live.copy.read_text() == "what it was before\n"
    assert reloads == []


def test_a_farm_where_no_score_decides_can_not_be_calibrated(path: Path) -> None:
    path.write_text(TEXT.replace('"best"', '"weighted"').replace('"best_score"', '"weighted"'))
    with pytest.raises(ConfigError, match="nothing to try"):
        LiveConfig(path)


def test_scores_are_calibrated_where_they_are_made(path: Path) -> None:
    path.write_text(TEXT.replace("adapt = true", 'connect = "http://127.0.0.1:8053"'))
    with pytest.raises(ConfigError, match="calibrate there"):
        LiveConfig(path)
