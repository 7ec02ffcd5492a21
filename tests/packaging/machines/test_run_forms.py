"""Tests of the forms of a run: their limits leave time for the steps, and for the removal of the machines."""

from __future__ import annotations

import pytest

from lbdns_machines.boot_check import LIMIT
from lbdns_machines.machine_farm import FILES_LIMIT, START_LIMIT, STOP_LIMIT
from lbdns_machines.run_forms import FORMS


@pytest.mark.parametrize("name", FORMS)
def test_limits_leave_time_for_steps_and_removal(name: str) -> None:
    form = FORMS[name]
    assert form.longest - START_LIMIT - form.longest_preparation - STOP_LIMIT - FILES_LIMIT >= 120
    assert LIMIT < START_LIMIT


def test_only_the_quick_form_builds_its_packages() -> None:
    assert [name for name, form in FORMS.items() if form.builds_packages] == ["quick"]
