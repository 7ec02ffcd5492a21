"""Checks that several load processes produce one result, and that none is left behind, even after failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.load import load_process_pool
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.load_process_pool import LoadPlace, LoadProgress, RunMeasurement, share_done
from lbdns_tools.load.load_study import PlannedRun, closed
from lbdns_tools.load.request_mix import one_url
from lbdns_tools.load.result_rows import LoadPoint
from lbdns_tools.load.run_statistics import run_statistics
from tests.end_to_end.process import alive, descendants, eventually
from tests.tools.load.local_runs import PATIENCE, run_of
from tests.tools.load.loopback_servers import GOOD, answering, names, stalling, web

URL = "http://127.0.0.1/"


@pytest.fixture(autouse=True)
def nobody_is_left() -> object:
    before = descendants(os.getpid())
    yield
    assert not alive(descendants(os.getpid()) - before)


def test_share_by_time_or_by_requests() -> None:
    assert share_done(run_of(OpenLoop((5.0,), 10.0), URL), 4.0, 1000) == 0.4
    assert share_done(run_of(ClosedLoop(5, requests=100), URL), 4.0, 30) == 0.3
    assert share_done(run_of(ClosedLoop(5, seconds=10.0, requests=100), URL), 4.0, 80) == 0.8
    assert share_done(run_of(ClosedLoop(5, seconds=10.0), URL), 14.0, 80) == 1.0


def test_progress_as_text() -> None:
    assert str(LoadProgress("x", 0.5, 2.0, 100, 3, 7)) == "100 requests, 50/s, 7 in progress, 3 failed"
    assert str(LoadProgress("x", 0.0, 0.0, 0, 0, 0)) == "0 requests, 0/s, 0 in progress"


def test_shares_come_to_the_whole() -> None:
    told: list[LoadProgress] = []
    with web(answering(GOOD)) as server:
        result = load_process_pool.run(
            run_of(ClosedLoop(5, requests=300), f"http://127.0.0.1:{server.port}/"), 3, told.append
        )
    assert (result.tally.requests, result.tally.ok, server.requests) == (300, 300, 300)
    assert sum(process.tally.requests for process in result.processes) == 300
    assert len(result.processes) == 3
    assert all(process.cpu_share > 0 for process in result.processes)
    assert not result.interrupted
    assert 0 < result.seconds < PATIENCE
    assert told[-1].elapsed_s >= told[0].elapsed_s


@pytest.mark.parametrize("processes", [1, 2])
def test_open_loop_is_the_same_sequence_however_many_processes(processes: int) -> None:
    def is_kept() -> bool:
        """Return whether the measured rate is the desired one. A busy machine may delay some requests."""
        run = run_of(OpenLoop((200.0,), 1.0), f"http://127.0.0.1:{server.port}/")
        server.requests = 0
        result = load_process_pool.run(run, processes)
        assert (result.tally.ok, server.requests) == (200, 200)
        assert result.tally.series()[0][1] == 200
        rate = run_statistics(result.tally, result.seconds, "").requests_per_s
        return bool(rate == pytest.approx(200, rel=0.1))

    with web(answering(GOOD)) as server:
        eventually(is_kept, "the rate is 200 requests/s", PATIENCE)


def test_names_are_resolved_in_every_process() -> None:
    with web(answering(GOOD)) as server, names({"www.hobbit.": ("A 127.0.0.1",)}) as server_of_names:
        resolve = ResolveRule("request", server=Endpoint("127.0.0.1", server_of_names.port))
        run = run_of(ClosedLoop(2, requests=20), f"http://www.hobbit:{server.port}/", resolve=resolve)
        result = load_process_pool.run(run, 2)
    assert (result.tally.ok, server_of_names.queries) == (20, 20)
    assert result.names == {"127.0.0.1": "www.hobbit"}


def test_servers_are_named_after_the_members_that_aliases_lead_to() -> None:
    records = {"best.hobbit.": ("CNAME frodo.hobbit.",), "frodo.hobbit.": ("A 127.0.0.1",)}
    with web(answering(GOOD)) as server, names(records) as server_of_names:
        resolve = ResolveRule("request", server=Endpoint("127.0.0.1", server_of_names.port))
        run = run_of(ClosedLoop(2, requests=20), f"http://best.hobbit:{server.port}/", resolve=resolve)
        row = RunMeasurement(2).measure(PlannedRun(LoadPoint("test", 2, None, "request", False), run))
    assert (row.figures.shares, row.figures.names) == ({"127.0.0.1": 1.0}, {"127.0.0.1": "frodo.hobbit"})


def test_a_name_that_the_system_resolves_names_its_server() -> None:
    with web(answering(GOOD)) as server:
        run = run_of(ClosedLoop(1, requests=2), f"http://localhost:{server.port}/", resolve=ResolveRule("system"))
        result = load_process_pool.run(run, 1)
    assert set(result.names.values()) == {"localhost"}


def test_failures_before_the_start_are_said() -> None:
    run = run_of(ClosedLoop(1, requests=1), "http://nobody.invalid/", resolve=ResolveRule("system"))
    with pytest.raises(LbdnsError, match=r"the system cannot resolve the name nobody\.invalid"):
        load_process_pool.run(run, 2)
    with pytest.raises(LbdnsError, match="at least 1, not 0"):
        load_process_pool.run(run, 0)


def test_process_that_dies_is_named() -> None:
    before = descendants(os.getpid())

    def kill_one(progress: LoadProgress) -> None:
        if progress.under_way == 4 and not killed:
            killed.append(min(descendants(os.getpid()) - before))
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    with web(stalling) as server, pytest.raises(LbdnsError, match=r"load process [12] exited .* with signal 9"):
        load_process_pool.run(
            run_of(ClosedLoop(4, seconds=PATIENCE), f"http://127.0.0.1:{server.port}/", timeout_s=PATIENCE), 2, kill_one
        )
    assert killed


def test_interrupted_run_gives_what_was_measured() -> None:
    """Check the result after Ctrl-C. The run is a separate process, because Ctrl-C interrupts a whole process."""
    with web(answering(GOOD, pause_s=0.01)) as server:
        program = (
            "import sys\n"
            "from lbdns_tools.load import load_process_pool\n"
            "from lbdns_tools.load.load_plan import *\n"
            "from lbdns_tools.load.request_mix import one_url\n"
            "load = LoadPhase(0.0, ClosedLoop(4, seconds=300.0), one_url(sys.argv[1]))\n"
            "run = LoadRun(ResolveRule('once'), timeout_s=60.0, phases=(load,))\n"
            "result = load_process_pool.run(run, 2, lambda progress: print(progress.requests, flush=True))\n"
            "print('result', result.interrupted, result.tally.ok, result.seconds)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, f"http://127.0.0.1:{server.port}/"], stdout=subprocess.PIPE, text=True
        )
        try:
            eventually(lambda: server.requests > 50, "requests come")
            children = descendants(process.pid)
            assert len(children) == 2
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()
    word, interrupted, ok, seconds = output.splitlines()[-1].split()
    assert (word, interrupted) == ("result", "True")
    assert int(ok) > 40
    assert 0 < float(seconds) < 300
    assert not alive(children)


def test_processes_end_when_who_started_them_is_killed() -> None:
    with web(stalling) as server:
        program = (
            "import sys\n"
            "from lbdns_tools.load import load_process_pool\n"
            "from lbdns_tools.load.load_plan import *\n"
            "from lbdns_tools.load.request_mix import one_url\n"
            "load = LoadPhase(0.0, ClosedLoop(4, seconds=300.0), one_url(sys.argv[1]))\n"
            "load_process_pool.run(LoadRun(ResolveRule('once'), timeout_s=300.0, phases=(load,)), 2)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", program, f"http://127.0.0.1:{server.port}/"])
        try:
            eventually(lambda: server.requests == 4, "requests come")
            children = descendants(process.pid)
        finally:
            process.kill()
            process.wait()
        assert len(children) == 2
        eventually(lambda: not alive(children), "the load processes have ended")


def test_all_begin_at_one_moment() -> None:
    def is_one_moment() -> bool:
        """Return whether one request of each process lies within the first second. A busy machine may delay some."""
        with web(answering(GOOD)) as server:
            result = load_process_pool.run(run_of(ClosedLoop(4, requests=4), f"http://127.0.0.1:{server.port}/"), 4)
        assert result.tally.requests == 4
        return result.tally.series()[0][:2] == (0, 4) and result.seconds < 1

    eventually(is_one_moment, "all begin within a second", PATIENCE)


def test_places_are_dealt_out_to_the_processes_in_turn(tmp_path: Path) -> None:
    """Check that three processes are assigned to two places in turn, and connect from the addresses of their places."""

    def place(name: str, source: str) -> LoadPlace:
        mark = f'echo $$ >> {tmp_path}/{name}; exec "$@"'
        return LoadPlace(("sh", "-c", mark, "sh"), (source,))

    with web(answering(GOOD)) as server:
        run = run_of(ClosedLoop(3, requests=60), f"http://127.0.0.1:{server.port}/")
        result = load_process_pool.run(run, 3, places=(place("first", "127.0.0.2"), place("second", "127.0.0.3")))
    assert result.tally.ok == 60
    assert server.peers == {"127.0.0.2", "127.0.0.3"}
    assert len((tmp_path / "first").read_text().split()) == 2
    assert len((tmp_path / "second").read_text().split()) == 1


@pytest.mark.parametrize(
    ("before", "error"),
    [
        (("/nowhere/to/be/found",), r"process 1 cannot be started: /nowhere/to/be/found: No such file"),
        (("sh", "-c", "echo no such namespace >&2; exit 3"), r"process 1 exited .* with exit status 3: no such names"),
    ],
)
def test_place_that_can_not_be_entered_is_said(before: tuple[str, ...], error: str) -> None:
    with pytest.raises(LbdnsError, match=error):
        load_process_pool.run(run_of(ClosedLoop(1, requests=1), "http://127.0.0.1/"), 1, places=(LoadPlace(before),))


def test_every_place_has_a_process() -> None:
    """Check that every client host runs at least one process, regardless of the number of processors."""
    places = tuple(LoadPlace(sources=(f"127.0.0.{number}",)) for number in range(2, 7))
    with web(answering(GOOD)) as server:
        mix = one_url(f"http://127.0.0.1:{server.port}/")
        planned = closed(LoadRun(ResolveRule("once")), "html", mix, ClosedLoop(10, requests=50))
        row = RunMeasurement(places=places).measure(planned)
    assert row.figures.ok == 50
    assert server.peers == {place.sources[0] for place in places}


def test_runs_at_the_same_time_have_results_of_their_own() -> None:
    with web(answering(GOOD)) as first, web(answering(GOOD)) as second:
        runs = [
            (run_of(ClosedLoop(1, requests=count), f"http://127.0.0.1:{server.port}/"), LoadPlace(sources=(source,)))
            for count, server, source in ((20, first, "127.0.0.2"), (30, second, "127.0.0.3"))
        ]
        together, each = load_process_pool.run_together(runs)
    assert [result.tally.ok for result in (together, *each)] == [50, 20, 30]
    assert (first.requests, second.requests) == (20, 30)
    assert (first.peers, second.peers) == ({"127.0.0.2"}, {"127.0.0.3"})
    assert {result.begun for result in each} == {together.begun}


def test_a_row_knows_when_its_run_began() -> None:
    with web(answering(GOOD, pause_s=0.02)) as server:
        mix = one_url(f"http://127.0.0.1:{server.port}/")
        planned = closed(LoadRun(ResolveRule("once")), "html", mix, ClosedLoop(1, seconds=1.0))
        before = time.time()
        row = RunMeasurement(processes=1).measure(planned, repetition=2)
    assert row.repetition == 2
    assert row.begun is not None
    assert before - 0.1 <= row.begun <= time.time() - 0.9, "it took a second from then on"
