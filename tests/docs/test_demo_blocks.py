"""Runs the command blocks of the documentation whose setting is ``demo``."""

from __future__ import annotations

from tests.docs.setting_tests import commands_test
from tests.needs import needs

test_commands, prepared = commands_test("demo")
pytestmark = needs(programs=("curl", "dig", "make", "pkill"), namespaces=True)
