"""Tests of shadow configuration: the shadow of each policy, and the output of ``lbdns check``."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns.config import CollectorConfig, PoolConfig, load_config
from lbdns.planning.shadow import ShadowConfig, shadows_of
from lbdns.policies import POLICIES
from lbdns.policies.member_columns import MemberView
from lbdns.policies.plan import PoolView
from lbdns_shared.errors import ConfigError
from tests.config import config_files

NAMES = {"a": "best", "b": "round_robin", "c": "weighted", "d": "best"}


def tried(shadow: str = "", score: str = "", names: dict[str, str] = NAMES) -> dict[str, str]:
    """Return a mapping from each live policy to the name of its shadow."""
    pool = PoolConfig("web", "hobbit", ("bilbo",), names, shadow=shadow)
    return {s.live: s.name for s in shadows_of(pool, CollectorConfig(shadow_score=score))}


def test_no_shadow_by_default() -> None:
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
def test_every_spec_is_right_about_using_the_score(policy: str) -> None:
    views = (
        PoolView(
            tuple(MemberView(usable=True, overdue=False, score=score, load=1.0, capacity=1.0) for score in scores),
            interval=1.0,
            requests_per_s=1.0,
            answers_per_s=1.0,
            answers_allowed=2,
        )
        for scores in ((30, 20, 10), (10, 20, 30))
    )
    one, other = (POLICIES[policy].function(view, None, Random(1)).order for view in views)
    assert POLICIES[policy].uses_score == (one != other)
    assert tried(score="idle", names={"x": policy}) == ({policy: f"{policy}/idle"} if one != other else {})


def test_the_fields_of_a_shadow() -> None:
    pool = PoolConfig("web", "hobbit", ("bilbo",), {"a": "best"}, shadow="best_score")
    (found,) = shadows_of(pool, CollectorConfig(shadow_score="idle"))
    assert found == ShadowConfig("best", "best_score", "idle")


CONFIG = """
[server]
listen = ["127.0.0.1:5300"]
{server}
{tables}[collector]
{collector}
[score.idle]
cpu_idle = {{ weight = 1, limit = 100 }}
"""
ZONE = "$TTL 1h\n@ SOA ns x 1 1h 1h 1h 1h\n@ NS ns\nns A 127.0.0.1\nbilbo A 127.0.0.16\n"


def written(folder: Path, server: str = "", pool: str = "", collector: str = "") -> Path:
    (folder / "hobbit.zone").write_text(ZONE)
    path = folder / "lbdns.toml"
    path.write_text(
        CONFIG.format(
            server=server, tables=config_files.ZONE + config_files.pool_table("bilbo", more=pool), collector=collector
        )
    )
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
        ({"server": "dns_servers = 0"}, "[server] dns_servers: must be a whole number from 1 to 1000"),
        ({"server": "dns_servers = 1001"}, "[server] dns_servers: must be a whole number from 1 to 1000"),
        ({"pool": 'shadow = "weigthed"'}, "shadow: unknown policy 'weigthed'. Perhaps you meant 'weighted'?"),
        ({"pool": "shadow = 3"}, "shadow: must be a string"),
        ({"collector": 'shadow_score = "idel"'}, "shadow_score: unknown score 'idel'. Perhaps you meant 'idle'?"),
        ({"collector": 'shadow_score = "headroom"'}, "'headroom' is already the score in use; choose another score"),
        ({"collector": 'score = "idle"\nshadow_score = "idle"'}, "shadow_score: 'idle' is already the score in use"),
    ],
)
def test_configuration_errors(tmp_path: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path, **keys))
    assert len(error.value.findings) == 1
    assert said in error.value.findings[0]


def test_check_prints_shadows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "dns_servers = 3", 'shadow = "best_score"', 'shadow_score = "idle"')
    assert run(lbdns, "lbdns", ["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "  shadow  of best: best_score by score idle\n" in out
    assert "  shadow  of round_robin: best_score by score idle\n" in out
    assert "DNS on 127.0.0.1:5300, one of 3 servers\n" in out
