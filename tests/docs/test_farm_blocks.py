"""Runs the command blocks of the documentation whose setting is ``farm``."""

from __future__ import annotations

from tests.docs.setting_tests import commands_test
from tests.needs import needs

test_commands, prepared = commands_test("farm")
pytestmark = needs(programs=("curl", "jq", "useradd"), namespaces=True)
