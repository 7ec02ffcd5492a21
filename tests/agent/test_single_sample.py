"""A single sample as a table and as JSON. tests/agent/test_cli.py takes real samples."""

from __future__ import annotations

import json

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.host_sampler import HostSample
from lbdns_agent.single_sample import SingleSample, sample_as_json, sample_as_table
from lbdns_shared.metric_catalogue import CATALOGUE, STANDARD_METRICS

OPTIONS = AgentOptions(name="gandalf", interval=2.0)
METRICS = {"load1": 0.25, "run_queue": 3.0, "queue_length": 7.5}
MISSING = {"gateway_ping": "no gateway", "jobs": "the file does not exist"}
SINGLE = SingleSample(HostSample(METRICS, MISSING), 0.5004, "nginx, http://127.0.0.1/")


def test_json() -> None:
    assert json.loads(sample_as_json(OPTIONS, SINGLE, 1000.12345)) == {
        "host": "gandalf", "time": 1000.123, "interval": 2.0, "span": 0.5, "web_server": "nginx, http://127.0.0.1/",
        "metrics": METRICS, "unavailable": MISSING,
    }  # fmt: skip
    assert json.loads(sample_as_json(OPTIONS, SINGLE._replace(web_server=""), 0.0))["web_server"] is None


def test_table() -> None:
    first, *lines = sample_as_table(OPTIONS, SINGLE).splitlines()
    assert first.startswith("gandalf, ")
    assert first.endswith("nginx, http://127.0.0.1/")
    assert [line.split()[0] for line in lines] == [*STANDARD_METRICS, "queue_length", "jobs"]
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in lines}
    assert rows["load1"][0] == "0.25"
    assert rows["run_queue"] == ["3", CATALOGUE["run_queue"].unit]
    assert rows["queue_length"] == ["7.50"]
    assert rows["gateway_ping"] == ["-", "no gateway"]
    assert rows["jobs"] == ["-", "the file does not exist"]
    assert rows["cpu_idle"] == ["-"], "neither measured nor explained"
