"""The administrator's file: which word is sent, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_agent.agent_check.order_file import READY_TIME, OrderFile


def test_orders_begin_and_end(tmp_path: Path) -> None:
    path = tmp_path / "order"
    file = OrderFile(path)
    assert file.order(100.0) == ""
    path.write_text("maint\n")
    assert file.order(100.5) == "", "the file is read once a second"
    assert file.order(101.0) == "maint"
    path.write_text(" drain ")
    assert file.order(102.0) == "drain"
    path.unlink()
    assert file.order(103.0) == "ready"
    assert file.order(103.0 + READY_TIME - 0.1) == "ready", "every HAProxy must receive it"
    assert file.order(103.0 + READY_TIME) == ""


def test_a_new_order_ends_the_time_of_ready(tmp_path: Path) -> None:
    path = tmp_path / "order"
    path.write_text("maint")
    file = OrderFile(path)
    assert file.order(1.0) == "maint"
    path.write_text("")
    assert file.order(2.0) == "ready", "an empty file is no order"
    path.write_text("maint")
    assert file.order(3.0) == "maint"


def test_ready_in_the_file_needs_no_time(tmp_path: Path) -> None:
    path = tmp_path / "order"
    path.write_text("ready")
    file = OrderFile(path)
    assert file.order(1.0) == "ready"
    path.unlink()
    assert file.order(2.0) == ""


def test_what_is_not_valid_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "order"
    path.write_text("maint")
    file = OrderFile(path)
    assert file.order(1.0) == "maint"
    for second, content in enumerate((b"maintenance", b"maintenance", b"\xff\xfe", b"x" * 1000), 2):
        path.write_bytes(content)
        assert file.order(float(second)) == "maint"
    path.unlink()
    path.mkdir()
    assert file.order(9.0) == "maint"
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 4, warnings
    assert "must contain maint, drain or ready, not 'maintenance'" in warnings[0]
    assert "cannot read the file: Is a directory" in warnings[-1]
