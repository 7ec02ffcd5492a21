"""Tests of the mark that skips tests whose requirements are missing, with generated test files."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests import needs as needs_module
from tests.needs import missing, needs, nothing_may_be_skipped, program

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent


def test_nothing_is_missing_where_nothing_is_needed() -> None:
    assert missing() == []


def test_a_program_that_is_not_there_names_the_command() -> None:
    (need,) = missing(programs=("sh", "lbdns-no-such-program"))
    assert need.reason == "needs lbdns-no-such-program: run `make deps-debian` as root"


def test_programs_are_found_in_the_system_folders_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "sbin-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    assert missing(programs=("sbin-tool",))
    monkeypatch.setattr(needs_module, "_SYSTEM_FOLDERS", str(tmp_path))
    assert missing(programs=("sbin-tool",)) == []
    assert program("sbin-tool") == str(tool)


def test_a_missing_program_has_no_path() -> None:
    with pytest.raises(FileNotFoundError, match="deps-debian"):
        program("lbdns-no-such-program")


def test_root_is_needed_by_others_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [need.what for need in missing(root=True)] == ["root"]
    assert [need.what for need in missing(namespaces=True)] == ["root"]
    assert [need.what for need in missing(cpu_groups=True)] == ["root"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert missing(root=True) == []


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_ci_means_everything(value: str, expected: bool) -> None:
    assert nothing_may_be_skipped({"CI": value}) is expected
    assert nothing_may_be_skipped({}) is False


def test_the_mark_carries_what_was_asked() -> None:
    mark = needs(programs=("ab",), root=True).mark
    assert (mark.name, mark.args, mark.kwargs["root"]) == ("needs", ("ab",), True)


MADE_UP = """
from tests.needs import needs

@needs(programs=("lbdns-no-such-program",))
def test_impossible():
    raise AssertionError("must not run")

@needs(programs=("sh",))
def test_possible():
    pass
"""


@pytest.fixture
def made_up(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(MADE_UP)
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\naddopts = --strict-markers\n")
    monkeypatch.delenv("CI", raising=False)
    return pytester


def test_a_missing_program_skips_and_is_summed_up(made_up: pytest.Pytester) -> None:
    result = made_up.runpytest_subprocess("-p", "tests.conftest", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*1 skipped: needs lbdns-no-such-program: run `make deps-debian` as root"])


def test_with_ci_it_fails_instead(made_up: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = made_up.runpytest_subprocess("-p", "tests.conftest", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*nothing may be skipped with CI=true*"])


def test_what_the_product_is_whole_without_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(needs_module, "_has_native", lambda: False)
    monkeypatch.setattr(needs_module, "_which", lambda name: "/usr/bin/cargo")
    (native,) = missing(native=True)
    assert not native.optional, "where it can be built it has to be tested"
    monkeypatch.setattr(needs_module, "_which", lambda name: None)
    (native,) = missing(native=True)
    assert native.optional
    assert native.reason == "needs the native extension of this version: run `make native`, which needs cargo"
    (fuzzer,) = missing(fuzzer=True)
    assert fuzzer.optional
