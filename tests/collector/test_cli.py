"""lbdns-collector as a real process: arguments, signals, reloads, and every reason for dropping a report."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_collector.joining.join_requests import JOIN_REASONS
from lbdns_collector.reports.reporting_peer import BURST
from lbdns_shared.report import REASONS
from tests.collector.collector_fixtures import ADDRESSES, KEY, OTHER_KEY, datagram, write_config, write_key
from tests.collector.collector_process import PATIENCE, RunningCollector, eventually, running

KEYED = 'listen = ["127.0.0.1:0"]\nkey_file = "report.key"'


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    write_key(tmp_path, KEY)
    with running(write_config(tmp_path, collector=KEYED)) as started:
        yield started


def now(host: str = "gandalf", seq: int = 1, boot: int = 7, late: float = 0.0) -> bytes:
    return datagram(host, seq=seq, boot=boot, at=time.time() - late, interval=60.0)


def provoke(reason: str) -> list[bytes]:
    """Return a sequence of datagrams of which only the last is dropped, for the given ``reason``."""
    return {
        "too_long": [now() + bytes(1200)],
        "malformed": [b"GET / HTTP/1.1\r\n\r\n"],
        "unknown_host": [now("sauron")],
        "bad_tag": [datagram(at=time.time(), key=OTHER_KEY)],
        "rate": [now(seq=n) for n in range(1, int(BURST) + 200)],
        "clock": [now(late=31.0)],
        "replay": [now(), now()],
    }[reason]


#: Reasons that occur only with reports from a bus
BUS_REASONS = ("wrong_subject", "duplicate")


@pytest.mark.parametrize("reason", [each for each in REASONS if each not in (*JOIN_REASONS, *BUS_REASONS)])
def test_every_reason(collector: RunningCollector, reason: str) -> None:
    data = provoke(reason)
    collector.send(*data)
    eventually(lambda: sum(collector.count(r) for r in ("accepted", *REASONS)) == len(data), "all to be counted")
    counts = {r: collector.count(r) for r in ("accepted", *REASONS)}
    assert counts[reason] > 0
    assert counts["accepted"] + counts[reason] == len(data), counts
    collector.wait_for_log(f"dropped: {reason}")
    collector.send(now("frodo"))
    eventually(lambda: collector.count("accepted") == counts["accepted"] + 1, "a good report to count")
    assert collector.status()["frodo"]["state"] == "usable"


def test_without_keys_the_address_counts(tmp_path: Path) -> None:
    with running(write_config(tmp_path)) as collector:
        collector.send(now("gandalf"), source=ADDRESSES["frodo"])
        eventually(lambda: collector.count("bad_tag") == 1, "the wrong address to be refused")
        collector.send(now("gandalf"), source=ADDRESSES["gandalf"])
        eventually(lambda: collector.count("accepted") == 1, "the right address to count")
        assert any("can be forged" in message for message in collector.messages())


def test_garbage_by_the_thousand(collector: RunningCollector) -> None:
    garbage = [bytes([n % 256]) * (n % 1300) for n in range(2000)]
    collector.send(*garbage)

    def heard() -> bool:
        collector.send(now())  # again, because the kernel drops what does not fit into the socket's buffer
        return collector.count("accepted") > 0

    eventually(heard, "the good one behind the garbage to count")
    assert sum("dropped" in message for message in collector.messages()) <= len(REASONS)
    assert collector.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_cleanly_with_open_streams(collector: RunningCollector, how: signal.Signals) -> None:
    with socket.create_connection(collector.web, PATIENCE) as stream:
        stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(100)
        assert collector.stop(how) == 0
    assert collector.messages()[-1] == "stopped"
    assert all(entry["level"] in ("info", "warning") for entry in collector.log), collector.log


def test_reload_keeps_readings_and_adds_members(tmp_path: Path) -> None:
    write_key(tmp_path, KEY)
    config = write_config(tmp_path, members=["gandalf", "bilbo"], collector=KEYED)
    with running(config) as collector:
        collector.send(now("gandalf", seq=5), now("frodo"))
        eventually(lambda: collector.count("accepted") + collector.count("unknown_host") == 2, "both to be counted")
        write_key(tmp_path, OTHER_KEY, KEY)
        write_config(tmp_path, members=["gandalf", "frodo"], collector=KEYED)
        collector.hang_up()
        collector.wait_for_log("reload: done")
        assert (collector.status()["gandalf"]["score"], set(collector.status())) == (100, {"gandalf", "frodo"})
        collector.send(now("gandalf", seq=5), now("frodo"), datagram("frodo", seq=2, at=time.time(), key=OTHER_KEY))
        eventually(lambda: collector.count("accepted") == 3, "both keys and the new member to count")
        assert collector.count("replay") == 1


def test_a_bad_file_at_reload_changes_nothing(collector: RunningCollector, tmp_path: Path) -> None:
    good = (tmp_path / "lbdns.toml").read_text()
    for count, bad in enumerate((good.replace("members", "menbers"), "[", good + "[[zone]]\n"), 1):
        (tmp_path / "lbdns.toml").write_text(bad)
        collector.hang_up()
        collector.wait_for_log("the old configuration stays", count)
    (tmp_path / "report.key").write_text("nonsense\n")
    (tmp_path / "lbdns.toml").write_text(good)
    collector.hang_up()
    collector.wait_for_log("the old configuration stays", 4)
    assert any("Perhaps you meant 'members'?" in message for message in collector.messages())
    collector.send(now())
    eventually(lambda: collector.count("accepted") == 1, "reports to count as before")


def test_reload_moves_the_pages_too(tmp_path: Path) -> None:
    with running(write_config(tmp_path)) as collector:
        old = collector.web
        write_config(tmp_path, web="127.0.0.2:0")
        collector.hang_up()
        collector.wait_for_log("reload: done")
        collector.web = collector.address("serving http://")
        assert collector.web[0] == "127.0.0.2"
        assert collector.get("/healthz") == "ok\n"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(old, 5).close()


def test_reload_to_a_taken_port_changes_nothing(tmp_path: Path) -> None:
    write_key(tmp_path, KEY)
    with running(write_config(tmp_path, collector=KEYED)) as collector:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            other = KEYED.replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}")
            write_config(tmp_path, members=["frodo"], collector=other, web="127.0.0.2:0")
            collector.hang_up()
            collector.wait_for_log("the old configuration stays in force: reports: 127.0.0.1")
        collector.web = collector.address("serving http://")
        assert collector.web[0] == "127.0.0.1"  # the web interface had been moved already, and was moved back
        collector.send(now("gandalf"))
        eventually(lambda: collector.status()["gandalf"]["state"] == "usable", "the old members to count")


def test_stat_file(tmp_path: Path) -> None:
    write_key(tmp_path, KEY)
    with running(write_config(tmp_path, collector=f'{KEYED}\nstat_file = "stat"')) as collector:
        collector.send(now())
        path = tmp_path / "stat"
        eventually(lambda: path.exists() and "gandalf:web:usable:100:" in path.read_text(), "the line of the report")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lbdns_collector", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def refused(config: Path) -> tuple[int, str]:
    """Return the exit status and the error message, and check that no traceback is printed."""
    done = run("-c", str(config))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@contextlib.contextmanager
def taken(kind: socket.SocketKind) -> Iterator[int]:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            sock.listen()
        yield sock.getsockname()[1]


def test_taken_report_port(tmp_path: Path) -> None:
    with taken(socket.SOCK_DGRAM) as port:
        status, message = refused(write_config(tmp_path, collector=f'listen = ["127.0.0.1:{port}"]'))
    assert status == 1
    assert message.splitlines()[-1].startswith(f"reports: 127.0.0.1:{port}: the port is in use; 'ss -lunp")


def test_taken_web_port(tmp_path: Path) -> None:
    with taken(socket.SOCK_STREAM) as port:
        status, message = refused(write_config(tmp_path, web=f"127.0.0.1:{port}"))
    assert status == 1
    assert message.splitlines()[-1].startswith(f"web: 127.0.0.1:{port}: the port is in use; 'ss -ltnp")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"collector": 'connect = "http://127.0.0.1:8053"'}, "lbdns-collector receives reports itself"),
        ({"collector": 'key_file = "none.key"'}, "none.key: cannot read the key file: No such file or directory"),
        ({"collector": 'lisen = ["127.0.0.1:0"]'}, "Perhaps you meant 'listen'?"),
        ({"members": ["gandalf", "sauron"]}, "'sauron' has no address in zone hobbit"),
        ({"more": '[server]\nuser = "no-such-user"\n'}, "no user 'no-such-user'"),
    ],
)
def test_bad_configuration(tmp_path: Path, changes: dict[str, str], what: str) -> None:
    status, message = refused(write_config(tmp_path, **changes))
    assert status == 2
    assert what in message


def test_no_configuration(tmp_path: Path) -> None:
    status, message = refused(tmp_path / "nothing.toml")
    assert (status, "there is no such file" in message) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "status", "what"),
    [
        (["--help"], 0, "Example:"),
        (["--version"], 0, "lbdns-collector 0."),
        (["--nonsense"], 2, "No such option"),
        (["--log-level", "loud"], 2, "loud"),
        (["surplus"], 2, "surplus"),
    ],
)
def test_arguments(arguments: list[str], status: int, what: str) -> None:
    done = run(*arguments)
    assert (done.returncode, what in done.stdout + done.stderr) == (status, True)


def test_pages_can_be_off(tmp_path: Path) -> None:
    config = write_config(tmp_path, web="off")
    process = subprocess.Popen(
        [sys.executable, "-m", "lbdns_collector", "-c", str(config)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "ready" in line:
                break
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
    assert any("is not published anywhere" in line for line in lines)
    assert not any("http://" in line for line in lines)


def test_unknown_page(collector: RunningCollector) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        collector.get("/nothing")


def test_reports_are_received_without_a_web_framework() -> None:
    """Loading a web framework would delay the start of ``lbdns serve`` by seconds on a slow machine."""
    code = "import sys, lbdns_collector.reports.collector, lbdns_collector.status.stat_file\n"
    code += "import lbdns_collector.web.web_interface\n"
    code += "print([name for name in ('aiohttp', 'prometheus_client') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
