"""What is tried in the shadow: read from the configuration, worked out for each policy, told by ``lbdns check``."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.cli import lbdns, run
from lbdns.config import CollectorConfig, PoolConfig, load_config
from lbdns.errors import ConfigError
from lbdns.policies import POLICIES
from lbdns.shadows import ShadowConfig, shadows_of

NAMES = {"a": "best", "b": "round_robin", "c": "weighted", "d": "best"}


def tried(shadow: str = "", score: str = "", names: dict[str, str] = NAMES) -> dict[str, str]:
    """By live policy, what is tried beside it."""
    pool = PoolConfig("web", "hobbit", ("bilbo",), names, shadow=shadow)
    return {s.live: s.name for s in shadows_of(pool, CollectorConfig(shadow_score=score))}


def test_nothing_unless_asked() -> None:
    assert tried() == {}


def test_a_policy_is_tried_beside_every_other() -> None:
    assert tried("best_score") == {"best": "best_score", "round_robin": "best_score", "weighted": "best_score"}
    assert tried("round_robin") == {"best": "round_robin", "weighted": "round_robin"}


def test_a_score_alone_is_tried_where_it_makes_a_difference() -> None:
    assert tried(score="idle") == {"best": "best/idle"}
    assert tried(score="idle", names={"b": "round_robin", "s": "best_score"}) == {"best_score": "best_score/idle"}


def test_both_at_once() -> None:
    assert tried("best", "idle") == {"best": "best/idle", "round_robin": "best/idle", "weighted": "best/idle"}
    assert tried("round_robin", "idle") == {"best": "round_robin", "weighted": "round_robin"}


@pytest.mark.parametrize("policy", POLICIES)
def test_of_every_policy_it_is_known_whether_it_goes_by_the_score(policy: str) -> None:
    found = tried(score="idle", names={"x": policy})
    assert found in ({}, {policy: f"{policy}/idle"})
    if policy in ("best", "best_score"):
        assert found


def test_its_parts() -> None:
    pool = PoolConfig("web", "hobbit", ("bilbo",), {"a": "best"}, shadow="best_score")
    (found,) = shadows_of(pool, CollectorConfig(shadow_score="idle"))
    assert found == ShadowConfig("best", "best_score", "idle")


CONFIG = """
[server]
listen = ["127.0.0.1:5300"]
{server}
[[zone]]
name = "hobbit"
file = "hobbit.zone"
[[pool]]
name = "web"
zone = "hobbit"
members = ["bilbo"]
{pool}
[collector]
{collector}
[score.idle]
cpu_idle = {{ weight = 1, limit = 100 }}
"""
ZONE = "$TTL 1h\n@ SOA ns x 1 1h 1h 1h 1h\n@ NS ns\nns A 127.0.0.1\nbilbo A 127.0.0.16\n"


def written(folder: Path, server: str = "", pool: str = "", collector: str = "") -> Path:
    (folder / "hobbit.zone").write_text(ZONE)
    path = folder / "lbdns.toml"
    path.write_text(CONFIG.format(server=server, pool=pool, collector=collector))
    return path


def test_keys_and_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path))
    assert (config.server.dns_servers, config.pools[0].shadow, config.collector.shadow_score) == (1, "", "")
    config = load_config(written(tmp_path, "dns_servers = 3", 'shadow = "weighted"', 'shadow_score = "idle"'))
    assert (config.server.dns_servers, config.pools[0].shadow, config.collector.shadow_score) == (3, "weighted", "idle")
    config = load_config(written(tmp_path, collector='score = "idle"\nshadow_score = "thesis"'))
    assert config.collector.shadow_score == "thesis"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"server": "dns_servers = 0"}, "[server] dns_servers: 0 is not a whole number from 1 to 1000"),
        ({"server": "dns_servers = 1001"}, "[server] dns_servers: 1001 is not a whole number from 1 to 1000"),
        ({"pool": 'shadow = "weigthed"'}, "shadow: 'weigthed': no such policy. Perhaps you meant 'weighted'?"),
        ({"pool": "shadow = 3"}, "shadow: 3 is not a string"),
        ({"collector": 'shadow_score = "idel"'}, "shadow_score: 'idel' is not known. Perhaps you meant 'idle'?"),
        ({"collector": 'shadow_score = "thesis"'}, "shadow_score: 'thesis' is the score that counts; try another one"),
        ({"collector": 'score = "idle"\nshadow_score = "idle"'}, "shadow_score: 'idle' is the score that counts"),
    ],
)
def test_mistakes(tmp_path: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path, **keys))
    assert len(error.value.findings) == 1
    assert said in error.value.findings[0]


def test_check_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "dns_servers = 3", 'shadow = "best_score"', 'shadow_score = "idle"')
    assert run(lbdns, "lbdns", ["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "  shadow  of best: best_score by score idle\n" in out
    assert "  shadow  of round_robin: best_score by score idle\n" in out
    assert "DNS on 127.0.0.1:5300, one of 3 servers\n" in out
