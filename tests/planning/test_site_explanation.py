"""Tests of the explanation of sites: their load, their shares, and why an answer names a member of another site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.choosing.site_load import SiteLoad
from lbdns.model.farm_reader import load_farm
from lbdns.model.liveness import NO_MEMBERS
from lbdns.planning.planner import Planner
from lbdns.planning.site_explanation import elsewhere, site_documents
from lbdns.planning.site_plans import SitePlans
from tests.planning.manual_loop import ManualLoop
from tests.planning.site_farm import CONFIGURATION, site_farm

BERLIN, PARIS = 0, 2  # a member of each site


class Loads:
    """Stands for a chooser: returns the given utilization of each site, or None for a site without usable members."""

    liveness = NO_MEMBERS

    def __init__(self, *utilization: float | None) -> None:
        self._utilization = utilization

    def site_load(self, members: Sequence[int]) -> SiteLoad:
        used = self._utilization[members[0] // 2]
        return SiteLoad(()) if used is None else SiteLoad(tuple(members), 100.0, 100 * used, measured=True)


def plans(folder: Path, *utilization: float | None, seconds: int = 60) -> SitePlans:
    """Return the plans after some ``seconds`` with this utilization of each site."""
    pool = site_farm(folder).pools[0]
    assert pool.sites is not None
    found, loads, answers = SitePlans(pool.sites.members, pool.sites.orders), Loads(*utilization), [0, 0]
    for second in range(seconds):
        answers = [total + round(100 * share) for total, share in zip(answers, found.orders[0].shares, strict=True)]
        found.count({("ber par", "ber"): answers[0], ("ber par", "par"): answers[1]})
        chooser: Any = loads
        found.update(chooser, float(second))
    return found


@pytest.mark.parametrize(
    ("utilization", "seconds", "why"),
    [
        ((0.2, 0.2), 60, "a probe of site par"),
        ((0.8, 0.2), 60, "site ber has less headroom than other sites"),
        ((None, 0.2), 60, "site ber has no usable member"),
        ((0.5, 0.3), 2, "site ber has less headroom than other sites"),  # a few answers, not only probes
    ],
)
def test_the_reason_for_another_site(
    tmp_path: Path, utilization: Sequence[float | None], seconds: int, why: str
) -> None:
    found = plans(tmp_path, *utilization, seconds=seconds)
    assert elsewhere(PARIS, found) == why
    assert elsewhere(BERLIN, found) == ""


def test_without_sites(tmp_path: Path) -> None:
    pool = site_farm(tmp_path).pools[0]
    assert elsewhere(PARIS, None) == ""
    assert site_documents(None, pool) == {"sites": [], "orders": []}


def test_the_documents_state_the_load_and_the_shares(tmp_path: Path) -> None:
    pool = site_farm(tmp_path).pools[0]
    found = site_documents(plans(tmp_path, 0.2, 0.25), pool)
    assert found["sites"] == [
        {"name": "ber", "members": ["b1", "b2"], "usable": 2, "utilization": 0.2},
        {"name": "par", "members": ["p1", "p2"], "usable": 2, "utilization": 0.25},
    ]
    assert found["orders"][0] == {"sites": ["ber", "par"], "shares": [0.99, 0.01], "why": ""}
    assert found["orders"][1] == {"sites": ["par", "ber"], "shares": [0.99, 0.01], "why": ""}


@pytest.mark.parametrize("policy", ["round_robin", "best", "weighted", "least_charged"])
def test_the_names_of_a_pool_with_sites_are_explained(tmp_path: Path, policy: str) -> None:
    site_farm(tmp_path)
    (tmp_path / "lbdns.toml").write_text(CONFIGURATION.replace("round_robin", policy))
    farm = load_farm(tmp_path / "lbdns.toml")
    planner = Planner(farm, AnswerTable(farm).cursors, ManualLoop().as_loop)
    found = planner.explain(farm.pools[0], "rr", lambda _: {})
    assert found is not None
    assert [member["name"] for member in found["members"]] == ["b1", "b2", "p1", "p2"]
    assert {member["credit"] for member in found["members"]} == {0.0}
