"""A running agent rereads its configuration file on SIGHUP, and keeps the old one if the new one is invalid."""

from __future__ import annotations

from pathlib import Path

from tests.agent.agents import Receiver, agent, receiver
from tests.agent.waiting import until
from tests.agent.web_programs import get, nginx
from tests.needs import needs

BASE = """\
[agent]
collector = {where}
interval = 0.1
gateway = off
alarm = off
"""


def wait_for(collector: Receiver, **metrics: float) -> None:
    """Receive reports until one has these metrics."""
    until(lambda: metrics.items() <= dict(collector.take().metrics).items())


def test_reload(tmp_path: Path) -> None:
    config, number = tmp_path / "agent.conf", tmp_path / "number"
    number.write_text("1")
    config.touch(0o600)
    with receiver() as first, receiver() as second:
        base = BASE.format(where=first.where) + "server-status = off\n"
        config.write_text(f"{base}[metric a]\nfile = {number}\n")
        with agent(tmp_path, "--config", str(config)) as running:
            wait_for(first, a=1.0)
            config.write_text(f"{base}[metric b]\ncommand = /bin/echo 2\n")
            running.reload()
            wait_for(first, b=2.0)
            boot, seq = first.reports[0].boot, first.reports[0].seq
            assert all(report.boot == boot for report in first.reports), "the collector sees the same agent"
            assert [report.seq for report in first.reports] == list(range(seq, seq + len(first.reports)))

            config.write_text(f"{base}intervall = 3\n[metric c]\nfil = /x\n")
            running.reload()
            until(lambda: running.lines("keeping the old configuration, because it could not be reloaded"))
            assert f"{config}:7: [agent] intervall: unknown key" in running.log
            assert f"{config}:9: [metric c] fil: unknown key" in running.log
            for _ in range(3):
                wait_for(first, b=2.0)

            config.write_text(base.replace(first.where, second.where) + "cgroup = /nowhere\n")
            running.reload()
            report = second.take()
            assert "b" not in report.metrics
            assert running.lines("a change of cgroup takes effect after a restart") == 1
            assert running.stop() == 0
            assert second.until("bye").boot == boot


@needs(programs=("nginx",))
def test_reports_of_nginx(tmp_path: Path) -> None:
    config = tmp_path / "agent.conf"
    with nginx(tmp_path) as port, receiver() as collector:
        config.write_text(
            f"{BASE.format(where=collector.where)}[web-server]\n"
            f"nginx = http://127.0.0.1:{port}/nginx_status\nworkers = 100\n"
        )
        with agent(tmp_path, "--config", str(config)) as running:
            wait_for(collector, busy_workers=1.0, idle_workers=100.0, listen_queue=0.0)
            before = collector.reports[-1].metrics["requests_total"]
            for _ in range(10):
                get(port)
            until(lambda: collector.take().metrics.get("requests_total", 0.0) >= before + 10)
            until(lambda: {"requests_per_s", "httpd_cpu_seconds"} <= set(collector.take().metrics))
            assert running.stop() == 0
