"""Makes the test that runs the command blocks of one setting, page by page, in one sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.docs.page_script import pages_with, run_page
from tests.docs.sandbox import Sandbox, sandbox


def commands_test(setting: str) -> tuple[Callable[..., None], Callable[..., Iterator[Sandbox]]]:
    """Return a test for each page that names the setting, and the fixture ``prepared`` that the test uses.

    Each setting needs a test file of its own, so that the settings are tested in parallel.
    """
    pages = pages_with(setting)

    @pytest.fixture(scope="module")
    def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
        with sandbox(setting, tmp_path_factory.mktemp(setting)) as found:
            yield found

    @pytest.mark.parametrize("page", pages)
    def test_commands(page: str, prepared: Sandbox) -> None:
        if failures := run_page(pages[page], prepared):
            pytest.fail("\n".join(failures), pytrace=False)

    return test_commands, prepared
