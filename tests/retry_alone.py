"""A pytest plugin that runs failed tests once more, alone, after a parallel run.

A test that fails among others but passes alone usually waits for something that a busy machine delays. Such a test does
not fail the run, but the run ends with a list of them: each is a defect, of the test or of the program.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest

HEADING = "failed in parallel, passed alone (find the cause)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--retry-alone",
        type=int,
        default=0,
        metavar="N",
        help="if at most N tests fail, run them once more, alone; the run succeeds if all of them pass then",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after all other plugins, when no test process is left
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    yield
    limit = session.config.getoption("--retry-alone")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    is_worker = hasattr(session.config, "workerinput")
    if session.exitstatus != pytest.ExitCode.TESTS_FAILED or reporter is None or is_worker:
        return
    failed = list(dict.fromkeys(report.nodeid for key in ("failed", "error") for report in reporter.getreports(key)))
    if not 0 < len(failed) <= limit:
        return
    reporter.section("failed tests, once more and alone")
    reporter.flush()
    command = (sys.executable, "-m", "pytest", "-p", "no:xdist", *failed)
    if subprocess.run(command, cwd=session.config.rootpath, check=False).returncode == 0:
        session.exitstatus = pytest.ExitCode.OK
        reporter.section(HEADING)
        for test in failed:
            reporter.line(test)
