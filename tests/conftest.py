"""Setup of all test runs: tests that the machine cannot run are skipped (with CI=true, they fail) and listed."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections import Counter
from collections.abc import Generator
from typing import Any, Final

import hypothesis
import pytest

from lbdns_shared import log
from lbdns_shared.log_writer import QueuedStream
from tests.needs import MARK, REASON_PREFIX, missing, nothing_may_be_skipped

pytest_plugins = ["tests.retry_alone"]

#: Files whose tests take longest, the longest first. They run first, so that no process still runs one of them when the
#: others have nothing left to do; this needs pytest-xdist's option --no-loadscope-reorder
LONGEST_FILES: Final = (
    "tests/distributions/test_agent_oldest_python.py",
    "tests/docs/test_demo_blocks.py",
    "tests/docs/test_checkout_blocks.py",
    "tests/tools/sim/test_acceptance_command.py",
    "tests/tools/bench/test_scaling_farm.py",
    "tests/end_to_end/test_scaler.py",
    "tests/answering/test_responder_fast_path.py",
    "tests/tools/bench/test_load_generator_speed.py",
    "tests/tools/scaler/providers/test_provider_contract.py",
    "tests/choosing/test_lying_member.py",
)


def hear_interrupts() -> None:
    """Restore SIGINT, which shells ignore in programs started with ``&``, so that tests can interrupt programs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_logs() -> None:
    """Remove the log handlers that a command has installed, because each test has its own standard error."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler).__module__ == log.__name__:
            root.removeHandler(handler)
            handler.close()
            if isinstance(sys.stderr, QueuedStream):
                sys.stderr = sys.stderr.replaced
            root.setLevel(logging.WARNING)


def pytest_configure(config: pytest.Config) -> None:
    hear_interrupts()
    # A deadline for each example would time the machine, which may have other work
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    config.addinivalue_line("markers", f"{MARK}(*programs, root, namespaces, ipv6, ...): use tests.needs.needs")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collection, and exempt tests and imported modules from it for the whole run.

    They are millions of objects that stay, and each full collection would search all of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.collect()  # counts the remaining objects, because their number delays the next full collection
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests in LONGEST_FILES to the beginning."""
    ranks = {path: rank for rank, path in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


@pytest.hookimpl(tryfirst=True)  # before any fixture that would stumble over what is missing
def pytest_runtest_setup(item: pytest.Item) -> None:
    lacking = [need for mark in item.iter_markers(MARK) for need in missing(programs=mark.args, **mark.kwargs)]
    if not lacking:
        return
    reason = "; ".join(dict.fromkeys(need.reason for need in lacking))
    if nothing_may_be_skipped() and not all(need.optional for need in lacking):
        pytest.fail(f"{reason} (nothing may be skipped with CI=true)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(trylast=True)  # fixtures may log while they end
def pytest_runtest_teardown() -> None:
    end_logs()


def skipped_capabilities(reports: list[Any]) -> Counter[str]:
    """Count the skipped tests by missing capability."""
    counts: Counter[str] = Counter()
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith(REASON_PREFIX):
            counts.update(reason.split("; "))
    return counts


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = skipped_capabilities(terminalreporter.stats.get("skipped", []))
    if not counts:
        return
    terminalreporter.section("what this machine could not test")
    for reason, count in sorted(counts.items()):
        terminalreporter.line(f"{count:4} skipped: {reason}")
