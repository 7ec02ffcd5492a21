"""Tests of recording a real server that receives reports from fake agents, and of replaying the recording."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.sim.live_recorder import record_live
from lbdns_tools.sim.recording_format import RecordedReport, read_recording
from lbdns_tools.sim.sim_command import command
from tests.end_to_end.harness import Site, agents, ask, new_site, serving
from tests.end_to_end.process import Program, python, running

INTERVAL = 0.2  # s between reports
MEMBERS = {"gandalf": ["127.0.0.1"], "frodo": ["127.0.0.2"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = new_site(tmp_path_factory.mktemp("site"), MEMBERS)
    site.write()
    return site


@contextlib.contextmanager
def life(site: Site, queries: int = 4) -> Iterator[None]:
    """Until exit, send two servers' reports (gandalf is twice as fast) and ``queries`` queries per interval."""
    over = threading.Event()

    def live() -> None:
        with agents(site, INTERVAL) as both:
            for turn in range(1, 10_000):
                for name, cpu in (("gandalf", 0.05), ("frodo", 0.1)):
                    both[name].send(
                        requests_total=20.0 * turn, httpd_cpu_seconds=cpu * turn, requests_per_s=100.0, busy_workers=1.0
                    )
                for _ in range(queries):
                    ask(site, "round.robin.hobbit")
                if over.wait(INTERVAL):
                    return

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def url(site: Site) -> str:
    return f"http://{site.at(site.http_port)}"


def recorder(site: Site, path: Path, *more: str) -> contextlib.AbstractContextManager[Program]:
    return running(*python("lbdns_tools.sim", "record", url(site), str(path), *more))


def test_what_is_recorded_can_be_replayed(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "day.jsonl"
    with serving(site), life(site), recorder(site, path, "--seconds", "3") as recording:
        assert recording.wait() == 0
        assert f"recording pool web in {path}" in recording.errors
        assert "reports and" in recording.errors
    found = read_recording(path)
    assert found.header.members == ("gandalf", "frodo")
    assert found.header.policies["best"] == "best"
    heard = [event for event in found.events if isinstance(event, RecordedReport)]
    assert len(heard) > 8
    assert {event.member for event in heard} == {"gandalf", "frodo"}
    assert all(event.reading.metrics["requests_per_s"] == 100.0 for event in heard)
    assert 3.0 <= found.seconds < 60.0
    one, other = found.answered
    assert one > 4
    assert abs(one - other) <= 1  # strict rotation
    assert (
        run(command, "lbdns-sim", ["--replay", str(path), "--policy", "weighted,round_robin", "--seeds", "1", "--json"])
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    weighted, rotation = document["replay"]["policies"]
    assert weighted["answers"] == rotation["answers"] == one + other
    assert weighted["shares"]["gandalf"] > 0.52
    assert rotation["diverted"] < 0.2
    speeds = dict(part.split("=") for part in document["cells"][0]["servers"].split(","))
    assert float(speeds["gandalf"].split("x")[0]) > 1.2 * float(speeds["frodo"].split("x")[0])


def test_a_recorder_outlives_the_server_and_ends_when_told(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    with life(site, queries=0), contextlib.ExitStack() as stack:
        with serving(site):
            program = stack.enter_context(recorder(site, path))
            program.until(lambda: path.exists() and len(path.read_text().splitlines()) > 3, "something is recorded")
        program.until(lambda: "retrying" in program.errors, "it notices")
        lines = len(path.read_text().splitlines())
        with serving(site):
            program.until(lambda: len(path.read_text().splitlines()) > lines + 6, "it goes on")
            assert program.stop() == 0
    found = read_recording(path)
    assert all(count >= 0 for count in found.answered)
    assert len(found.events) > 6


def test_a_farm_from_a_running_server(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kept.jsonl"
    arguments = ["--from", url(site), "--from-seconds", "4", "--seeds", "1", "--duration", "5", "--warm-up", "1"]
    with serving(site), life(site):
        assert run(command, "lbdns-sim", [*arguments, "--record", str(path), "--json"]) == 0
        captured = capsys.readouterr()
        with pytest.raises(ConfigError, match=r"there is no pool named 'wbe'\. Perhaps you meant 'web'"):
            record_live(url(site), "wbe", 1.0)
    assert "Recording" in captured.err
    document = json.loads(captured.out)
    assert set(document["cells"][0]["shares"]) == {"gandalf", "frodo"}
    assert any("gandalf: 2 cores (cpu_count)" in note for note in document["notes"]), document["notes"]
    assert read_recording(path).members == ("gandalf", "frodo")
    assert run(command, "lbdns-sim", [*arguments, "--record", str(path)]) != 0  # is there already, or nobody answers


def test_what_is_not_lbdns(site: Site) -> None:
    with pytest.raises(LbdnsError, match="no response"):
        record_live(url(site), None, 1.0)
    with serving(site), pytest.raises(LbdnsError, match="the response is not from lbdns: /api/v1/status returned 404"):
        record_live(f"{url(site)}/metrics", None, 1.0)
