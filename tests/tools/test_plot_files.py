"""Tests of plot files: file types, logarithmic axes, and errors raised before a measurement starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.plot_files import ENDINGS, check_file, log_times, new, save

BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_kind_of_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"picture{ending}"
    check_file(path)
    figure, _ = new(1, 1, 3.0, 2.0)
    save(figure, path)
    assert path.read_bytes().startswith(BEGINNINGS[ending])


@pytest.mark.parametrize("values", [[59.0, 61.0], [1.0, 800.0]])
def test_logarithmic_axes_show_a_decade_and_all_values(values: list[float]) -> None:
    _, ((axes,),) = new(1, 1, 3.0, 2.0)
    axes.plot(values)
    log_times(axes)
    low, high = axes.get_ylim()
    assert high / low >= 9.99
    assert low < min(values)
    assert high > max(values)


def test_errors_come_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in one of \.png, \.svg, \.pdf"):
        check_file(tmp_path / "picture.jpeg")
    with pytest.raises(ConfigError, match="does not exist"):
        check_file(tmp_path / "nowhere" / "picture.png")


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LbdnsError, match=r"pip install 'lbdns-tools\[lab\]'"):
        check_file(tmp_path / "picture.png")


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "picture.png").mkdir()
    figure, _ = new(1, 1, 3.0, 2.0)
    with pytest.raises(LbdnsError, match="cannot write the file"):
        save(figure, tmp_path / "picture.png")
