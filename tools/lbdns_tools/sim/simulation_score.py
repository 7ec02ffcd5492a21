"""Read the score of a simulation: a built-in score, or a [score.NAME] table in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lbdns.config.score_section import read_scores
from lbdns.config.toml_reader import read_toml
from lbdns.scores import SCORES
from lbdns.scores.score import Term
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError


def read_score(text: str) -> tuple[str, Mapping[str, Term] | None]:
    """``thesis``, ``FILE.toml`` with one [score.NAME] table, or ``FILE.toml:NAME``: the name and, if it isn't built
    in, its terms. Raises ConfigError."""
    if text in SCORES:
        return text, None
    file, _, name = text.rpartition(":") if not text.endswith(".toml") else (text, "", "")
    if not file.endswith(".toml"):
        raise ConfigError(f"--score: {text!r} is neither built in nor FILE.toml:NAME{nearest(text, SCORES)}")
    root = read_toml(Path(file))
    scores = read_scores(root)
    root.findings.raise_if_any()
    if not scores:
        raise ConfigError(f"{file}: score: there is no [score.NAME] table")
    if not name and len(scores) > 1:
        raise ConfigError(f"{file}: score: there are several; say which: {', '.join(f'{file}:{n}' for n in scores)}")
    name = name or next(iter(scores))
    if name not in scores:
        raise ConfigError(f"{file}: score: there is no [score.{name}]{nearest(name, scores)}")
    return name, scores[name]
