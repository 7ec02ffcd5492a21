"""Runs the command blocks of the documentation whose setting is ``bus``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.page_script import pages_with, run_page
from tests.docs.sandbox import Sandbox, sandbox
from tests.needs import needs

SETTING = "bus"
PAGES = pages_with(SETTING)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox(SETTING, tmp_path_factory.mktemp(SETTING)) as found:
        yield found


@needs(programs=("jq", "nats-server", "useradd"), namespaces=True)
@pytest.mark.parametrize("page", PAGES)
def test_commands(page: str, prepared: Sandbox) -> None:
    assert run_page(PAGES[page], prepared) == []
