"""The table of built-in scores.

To add a score, write a module, add the score to this table, add a test, and document the score.
"""

from __future__ import annotations

from typing import Final

from lbdns.scores.headroom import HEADROOM
from lbdns.scores.score import Score
from lbdns.scores.thesis import THESIS

#: Every built-in score, by the name that configurations use. The first one is the default
SCORES: Final[dict[str, Score]] = {"headroom": HEADROOM, "thesis": THESIS}
DEFAULT_SCORE: Final = next(iter(SCORES))
