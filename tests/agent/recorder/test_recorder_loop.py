"""Tests of running recorders: intervals, signals, rotation by other programs, and disks that become full."""

from __future__ import annotations

import os
import signal
from datetime import datetime
from pathlib import Path

import pytest

from tests.agent.recorder.recorders import RunningRecorder, assert_whole, recorder
from tests.agent.waiting import until
from tests.needs import needs, program


def rows(path: Path) -> int:
    """Return the number of rows that a file has now."""
    try:
        return path.read_bytes().count(b"\n") - 1
    except FileNotFoundError:
        return 0


def recorded_devices() -> int:
    return len(Path("/proc/diskstats").read_text().splitlines())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_rows_at_fixed_intervals_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = out / "metrics_load1.csv"
    with recorder(tmp_path, "--metrics", "load1", "--interval", "0.5", "--out", str(out)) as running:
        until(lambda: rows(path) >= 10)
        assert running.stop(number) == 0
        assert len(running.lines("recording every 0.5 s to ")) == 1
        assert running.log.endswith("lbdns.recorder: stopped\n")
    times = [datetime.fromisoformat(row.partition(",")[0]).timestamp() for row in assert_whole(path.read_text())]
    assert times == sorted(times)
    # Late rows don't shift the following ones: each is due at a multiple of the interval. A busy machine skips some
    # rows, and delays others
    on_the_grid = [sum(abs((time - on_time) / 0.5 % 1.0 - 0.5) > 0.25 for time in times) for on_time in times]
    assert max(on_the_grid) >= 0.6 * len(times), times


def test_sighup_does_not_stop_a_recorder_and_a_moved_file_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "diskstats.csv"
    with recorder(tmp_path, "--devices", "all", "--interval", "0.1", "--out", str(tmp_path)) as running:
        until(lambda: rows(path) > 0)
        path.rename(tmp_path / "old.csv")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: rows(path) > 0)
        assert running.stop() == 0
    for name in ("diskstats.csv", "old.csv"):
        found = assert_whole((tmp_path / name).read_text())
        assert len(found) % recorded_devices() == 0


def test_the_limit_of_a_file_size(tmp_path: Path) -> None:
    out = tmp_path / "out"
    device = Path("/proc/diskstats").read_text().split()[2]
    path = out / f"diskstats_{device}.csv"
    limited = ("sh", "-c", 'ulimit -f 8 && exec "$0" "$@"')  # 8 blocks of 512 bytes
    with recorder(tmp_path, "--devices", device, "--interval", "0.1", "--out", str(out), wrapper=limited) as running:
        until(lambda: running.lines("rows are lost until"))
        assert_whole(path.read_text())
        path.rename(out / "full.csv")
        until(lambda: running.lines(": can be written again"))
        assert running.stop() == 0
        assert "File too large; rows are lost until the file can be written again" in running.log
    assert_whole((out / "full.csv").read_text())
    assert_whole(path.read_text())


def test_a_directory_that_is_missing_for_a_while(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with recorder(tmp_path, "--devices", "all", "--interval", "0.1", "--out", str(out)) as running:
        until(lambda: rows(out / "diskstats.csv") > 0)
        out.rename(tmp_path / "elsewhere")
        until(lambda: running.lines("No such file or directory; rows are lost until"))
        assert not out.exists(), "the directory may be a mount point: rows must not end up on another disk"
        (tmp_path / "elsewhere").rename(out)
        until(lambda: running.lines(": can be written again"))
        assert running.stop() == 0
    assert len(assert_whole((out / "diskstats.csv").read_text())) % recorded_devices() == 0


class SmallDisk:
    """A file system of 64 kB that only a recorder in its mount namespace has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        script = f'{program("mount")} -t tmpfs -o size=64k none "{folder}" && exec "$0" "$@"'
        self.wrapper = (program("unshare"), "--mount", "sh", "-c", script)

    def inside(self, running: RunningRecorder) -> Path:
        """Return the path at which other processes see the file system."""
        return Path(f"/proc/{running.process.pid}/root{self.folder}")


def fill(path: Path) -> None:
    """Write to a file until the disk is full."""
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(1024)) == 1024:
                pass
        except OSError:
            return


@needs(namespaces=True, programs=("unshare", "mount"))
def test_a_disk_that_is_full_for_a_while(tmp_path: Path) -> None:
    out = tmp_path / "disk"
    out.mkdir()
    disk = SmallDisk(out)
    arguments = ("--devices", "all", "--interval", "0.1", "--out", str(out))
    with recorder(tmp_path, *arguments, wrapper=disk.wrapper) as running:
        until(lambda: running.lines("recording every"))
        path = disk.inside(running) / "diskstats.csv"
        until(lambda: rows(path) > 0)
        filler = disk.inside(running) / "filler"
        for times in (1, 2):
            fill(filler)
            until(lambda times=times: len(running.lines("rows are lost until")) == times)  # type: ignore[misc]
            assert len(assert_whole(path.read_text())) % recorded_devices() == 0
            filler.unlink()
            until(lambda times=times: len(running.lines(": can be written again")) == times)  # type: ignore[misc]
        text = path.read_text()
        assert running.stop() == 0
    assert len(assert_whole(text)) % recorded_devices() == 0
    assert "No space left on device; rows are lost until the file can be written again" in running.log
    counts = [int(line.split("; ")[1].split()[0]) for line in running.lines(": can be written again; ")]
    assert [count % recorded_devices() for count in counts] == [0, 0], "a round is lost or written as a whole"
    assert running.lines("in total")[0].endswith(f": {sum(counts)} rows were lost in total")


@needs(namespaces=True, programs=("unshare", "mount"))
def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    out = tmp_path / "disk"
    out.mkdir()
    disk = SmallDisk(out)
    full = disk.wrapper[-1].replace(" && ", f' && head -c 100000 /dev/zero > "{out}/filler" 2> /dev/null; ', 1)
    arguments = ("--devices", "all", "--interval", "0.1", "--out", str(out))
    with recorder(tmp_path, *arguments, wrapper=(*disk.wrapper[:-1], full)) as running:
        until(lambda: running.lines("rows are lost until"))
        os.unlink(disk.inside(running) / "filler")
        until(lambda: running.lines(": can be written again"))
        text = (disk.inside(running) / "diskstats.csv").read_text()
        assert running.stop() == 0
    assert len(assert_whole(text)) % recorded_devices() == 0
    with recorder(tmp_path, *arguments, "--once", wrapper=(*disk.wrapper[:-1], full)) as single:
        assert single.process.wait(60) == 1
        assert single.log.endswith("diskstats.csv: No space left on device\n")
