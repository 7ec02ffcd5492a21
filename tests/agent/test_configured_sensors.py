"""Metrics of the configuration file: one reading per source, rates, failures, and replaced standard metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbdns_agent import configured_sensors as configured_sensors_module
from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.configured_sensors import configured_sensors, metric_sensors, source_metrics
from lbdns_agent.host_sampler import HostSample, HostSampler
from lbdns_agent.metrics import METRIC_SENSORS
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.sources.json_field import JsonField
from lbdns_agent.sources.metric_definition import CommandSource, FileSource, MetricDefinition, UrlSource
from lbdns_agent.sources.plain_number import PlainNumber
from lbdns_agent.sources.prometheus_sample import PrometheusSample
from lbdns_agent.webserver.status_page import parse_page_url, parse_status_url
from lbdns_agent.webserver.web_server_options import WebServerOptions
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from tests.agent.fixtures import host_with_kernel
from tests.agent.waiting import PATIENCE, until
from tests.agent.web import answer, counting, hanging, web_server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sources take as long as a busy machine needs."""
    monkeypatch.setattr(configured_sensors_module, "TIMEOUT", PATIENCE)


def sampler(*definitions: MetricDefinition) -> HostSampler:
    return HostSampler(host_with_kernel("6.1"), SensorTasks(), metric_sensors(definitions))


def sample(*definitions: MetricDefinition) -> HostSample:
    return sampler(*definitions).sample(PATIENCE, PATIENCE)


def at(url: str) -> UrlSource:
    return UrlSource(parse_page_url(url, ""))


@pytest.mark.parametrize(
    ("before", "now", "seconds", "expected"),
    [
        (None, 5.0, 0.0, {"level": 5.0}),
        (3.0, 5.0, 2.0, {"level": 5.0, "rate": 1.0}),
        (5.0, 5.0, 2.0, {"level": 5.0, "rate": 0.0}),
        (9.0, 5.0, 2.0, {"level": 5.0}),  # the program has restarted
        ("absent", 5.0, 2.0, {"level": 5.0}),
        (3.0, "absent", 2.0, {"level": "absent", "rate": "absent"}),
        (3.0, 5.0, 0.0, {"level": 5.0}),
    ],
)
def test_rates(before: float | str | None, now: float | str, seconds: float, expected: dict[str, float | str]) -> None:
    reading = None if before is None else {"level": before, "rate": before}
    assert source_metrics(frozenset({"rate"}), reading, {"level": now, "rate": now}, seconds) == expected


def test_metrics_of_one_page_share_a_request() -> None:
    requests = []

    def page(connection: object, request: bytes) -> None:
        requests.append(request)
        connection.sendall(answer(json.dumps({"n": len(requests), "text": "x"}).encode()))  # type: ignore[attr-defined]

    with web_server(page) as url:
        found = sampler(
            MetricDefinition("n", at(url), JsonField(("n",))),
            MetricDefinition("per_s", at(url), JsonField(("n",)), is_rate=True),
            MetricDefinition("text", at(url), JsonField(("text",))),
        )
        first = found.sample(PATIENCE, PATIENCE)
        assert (first.metrics, first.missing["per_s"]) == ({"n": 1.0}, "this metric needs two samples")
        assert first.missing["text"].endswith("the field 'text' must be a number, not 'x'")
        until(lambda: "per_s" in found.sample(PATIENCE, PATIENCE).metrics)
    assert requests[0].startswith(b"GET /server-status HTTP/1.0\r\n")


def test_a_failure_affects_no_other_metric(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("12\n")
    with web_server(hanging) as slow, web_server(lambda connection, _: connection.sendall(answer(b"up 1\n"))) as url:
        found = sampler(
            MetricDefinition("hangs", at(slow), PlainNumber()),
            MetricDefinition("up", at(url), PrometheusSample("up")),
            MetricDefinition("down", at(url), PrometheusSample("down")),
            MetricDefinition("users", FileSource(str(tmp_path / "users")), PlainNumber()),
            MetricDefinition("nobody", FileSource(str(tmp_path / "nobody")), PlainNumber()),
            MetricDefinition("three", CommandSource(("/bin/echo", "3")), PlainNumber()),
            MetricDefinition("fails", CommandSource(("/bin/false",)), PlainNumber()),
        )
        metrics: dict[str, float] = {}
        missing: set[str] = set()

        def is_complete() -> bool:
            sample = found.sample(0.5, 5.0)  # on a busy machine, other pages than the one that hangs are late too
            metrics.update(sample.metrics)
            missing.update(f"{name}: {why}" for name, why in sample.missing.items())
            return "three" in metrics and any(why.endswith("there is no sample down") for why in missing)

        until(is_complete)
    assert metrics == {"up": 1.0, "users": 12.0, "three": 3.0}
    assert any(why.startswith("hangs: ") and why.endswith("no response in time") for why in missing)
    assert any(why.startswith("nobody: ") and why.endswith("nobody: No such file or directory") for why in missing)


def test_a_large_page_of_metrics_is_read() -> None:
    page = b"".join(b'requests_bucket{le="%d"} 1\n' % i for i in range(20_000)) + b"requests_in_flight 4\n"
    with web_server(lambda connection, _: connection.sendall(answer(page))) as url:
        assert len(page) > 512 * 1024
        assert sample(MetricDefinition("n", at(url), PrometheusSample("requests_in_flight"))).metrics == {"n": 4.0}


def test_a_metric_replaces_the_standard_metric_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "busy").write_text("7")
    own = MetricDefinition("busy_workers", FileSource(str(tmp_path / "busy")), PlainNumber())
    with web_server(counting()) as url:
        options = AgentOptions("gandalf", gateway=None, status=parse_status_url(url), metrics=(own,))
        sensors, describe = configured_sensors(options)
        assert list(sensors) == list(STANDARD_METRICS)
        assert sensors["busy_workers"] is not sensors["idle_workers"]
        assert describe() == f"{url}?auto"
    assert configured_sensors(AgentOptions("gandalf"))[1]() == ""


def test_all_metrics() -> None:
    sensors, _ = configured_sensors(AgentOptions("gandalf", all_metrics=True))
    assert sensors == METRIC_SENSORS


@pytest.mark.parametrize(("kind", "own"), [("nginx", "nginx_waiting"), ("haproxy", "haproxy_queue")])
def test_a_web_server_brings_its_own_metric(kind: str, own: str) -> None:
    page = parse_page_url("http://127.0.0.1:9/x", "")
    server = WebServerOptions("nginx" if kind == "nginx" else "haproxy", page)
    sensors, describe = configured_sensors(AgentOptions("gandalf", web_server=server))
    assert sensors[own] is sensors["busy_workers"] is sensors["requests_per_s"]
    assert describe() == f"{kind}, http://127.0.0.1:9/x"
