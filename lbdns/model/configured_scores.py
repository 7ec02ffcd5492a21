"""Build the scores that a configuration selects with ``[collector] score`` and ``shadow_score``."""

from __future__ import annotations

from lbdns.config import Config
from lbdns.scores import SCORES
from lbdns.scores.score import Score


def build_score(config: Config) -> Score:
    """Return the score that ``[collector] score`` selects: a built-in one or a ``[score.NAME]`` table."""
    return _named(config.collector.score, config)


def build_shadow_score(config: Config) -> Score | None:
    """Return the score that ``[collector] shadow_score`` selects, None if it is not set."""
    name = config.collector.shadow_score
    return _named(name, config) if name else None


def _named(name: str, config: Config) -> Score:
    return SCORES[name] if name in SCORES else Score(config.scores[name])
