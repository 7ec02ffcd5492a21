"""Fixtures for the tests of lbdns.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.config import Config, load_config
from tests.config.config_files import Load


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def read(text: str) -> Config:
        path = tmp_path / "lbdns.toml"
        path.write_text(text)
        return load_config(path)

    return read
