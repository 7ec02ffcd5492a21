"""A configuration whose zones, pools, report keys and scores have been read and checked."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from lbdns.config import Config
from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMembers
from lbdns.scores import SCORES
from lbdns.scores.score import Score
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.keys import MasterKey


@dataclass(frozen=True, slots=True)
class CheckedConfiguration:
    """The farm, and the keys that verify reports. Collectors need both, and so do programs that follow a collector."""

    farm: Farm
    keys: tuple[MasterKey, ...]  # for reports; if empty, reports are accepted by their source address
    _: KW_ONLY
    joined: JoinedMembers = NO_JOINED_MEMBERS  # the joined members in the farm
    without_joined: Farm | None = None  # the farm as configured; None if no host has joined
    bus: BusAccess | None = None  # a bus from which reports also come

    @property
    def configured(self) -> Farm:
        """Return the farm without joined members."""
        return self.without_joined or self.farm


def build_score(config: Config) -> Score:
    """Return the score that ``[collector] score`` selects: either a built-in score or a ``[score.NAME]`` table."""
    return _named(config.collector.score, config)


def build_shadow_score(config: Config) -> Score | None:
    """Return the score that ``[collector] shadow_score`` selects, or None if that setting is absent."""
    name = config.collector.shadow_score
    return _named(name, config) if name else None


def _named(name: str, config: Config) -> Score:
    return SCORES[name] if name in SCORES else Score(config.scores[name])
