"""Runs the command blocks of the documentation whose setting is ``delegated``."""

from __future__ import annotations

from tests.docs.setting_tests import commands_test
from tests.needs import needs

test_commands, prepared = commands_test("delegated")
pytestmark = needs(programs=("dig", "named", "named-checkzone", "useradd"), namespaces=True)
