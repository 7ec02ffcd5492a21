"""scaler.toml: defaults, every kind of error with its line, and which parts it chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.policies.queue import Queue
from lbdns_tools.scaler.policies.target import Target
from lbdns_tools.scaler.settings.scaler_settings import load_settings

LEAST = '[provider]\nkind = "processes"\nkey_file = "report.key"\n'


def load(folder: Path, text: str) -> object:
    path = folder / "scaler.toml"
    path.write_text(text)
    return load_settings(path)


def test_defaults(tmp_path: Path) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text(LEAST)
    found = load_settings(path)
    assert (found.scaler.farm, found.scaler.minimum, found.scaler.maximum, found.scaler.period) == ("web", 1, 10, 15.0)
    assert found.policy == Queue()
    assert found.benchmark is None
    assert found.times.drain == 600.0


def test_the_policy_in_force_has_its_own_settings(tmp_path: Path) -> None:
    path = tmp_path / "scaler.toml"
    text = '[scaler]\npolicy = "target"\n[policy.queue]\nbeta = 2\n[policy.target]\nutilization = 50\n[benchmark]\n'
    path.write_text(text + LEAST)
    found = load_settings(path)
    assert found.policy == Target(utilization=50.0)
    assert found.benchmark is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[scaler]\nminimum = 0\n", "2: [scaler] minimum: must be a whole number from 1 to 1000, not 0"),
        ("[scaler]\nminimum = 4\nmaximum = 2\n", "3: [scaler] maximum: must be at least the minimum, 4, not 2"),
        ('[scaler]\npolicy = "que"\n', "2: [scaler] policy: unknown policy 'que'. Perhaps you meant 'queue'?"),
        ('[scaler]\nperiod = "0s"\n', "2: [scaler] period: "),
        (
            '[scaler]\nfarm = "Web_Farm!"\n',
            "2: [scaler] farm: must be the start of a host name, at most 50 characters long",
        ),
        ('[scaler]\nlisten = "here"\n', "2: [scaler] listen: "),
        ("[scaler]\nmaximun = 3\n", "2: [scaler] maximun: unknown key. Perhaps you meant 'maximum'?"),
        ("[scaller]\n", "1: scaller: unknown key. Perhaps you meant 'scaler'?"),
        ('[times]\ndrain = "soon"\n', "2: [times] drain: 'soon' is not a valid duration"),
        ("[policy.best]\n", "unknown policy 'best'"),
        ('[front_end]\nurl = "127.0.0.1:8053"\n', "2: [front_end] url: "),
    ],
)
def test_errors(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text + LEAST)
    assert f"scaler.toml:{expected}" in str(caught.value) or expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_all_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[scaler]\nminimum = 0\n[probe]\nport = 0\n[provider]\nkind = "cloud"\n')
    assert len(str(caught.value).splitlines()) == 3
