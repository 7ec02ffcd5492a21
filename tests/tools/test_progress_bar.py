"""Checks that a progress bar appears only on standard error, and only if standard error is a terminal."""

from __future__ import annotations

import pytest

from lbdns_tools.progress_bar import count_bar, share_bar


def test_a_count_is_not_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with count_bar(2, "runs") as advance:
        advance("best, seed 7")
    assert capsys.readouterr().err == ""


def test_a_count_is_shown_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with count_bar(1, "runs") as advance:
        advance("best, seed 7")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1/1" in captured.err
    assert "runs" in captured.err
    assert "best, seed 7" in captured.err


@pytest.mark.parametrize("visible", [True, False])
def test_a_share_is_shown_with_the_label_of_its_run(
    visible: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with share_bar(visible) as show:
        show("first", 0.5, "10 requests")
        show("second", 0.1, "20 requests")
    error = capsys.readouterr().err
    assert ("second" in error and "20 requests" in error) == visible
    assert visible or error == ""
