"""The configuration file: its sections, its errors, its owner, and the command line's precedence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lbdns_agent import cli
from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.alarm_conditions import AlarmCondition
from lbdns_agent.configuration.config_file import merge
from lbdns_agent.sources.json_field import JsonField
from lbdns_agent.sources.metric_definition import CommandSource, FileSource, MetricDefinition, UrlSource
from lbdns_agent.sources.plain_number import PlainNumber
from lbdns_agent.sources.prometheus_sample import PrometheusSample
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_agent.webserver.web_server_options import WebServerOptions
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError

EVERYTHING = """\
[agent]
collector = ns1.example.net
    192.0.2.1:1
interval = 0.5
name = Gandalf
key-file = /etc/lbdns/agent.key
pool = web
address = 192.0.2.7, 2001:db8::7
status-url = http://ns1:8053
alarm = run_queue > 5
    queue_length >= 100
agent-check = 7778
agent-check-file = /run/order
serve = 5555
gateway = off
cgroup = /web
log-format = json
log-level = debug

[web-server]
nginx = http://127.0.0.1:8080
workers = 512
watch = [::1]:443

[metric queue_length]
json = http://127.0.0.1:9000/stats?x=1
field = queue.length

[metric jobs]
prometheus = https://127.0.0.1:9001
sample = jobs_total{queue="mail"}
rate = yes

[metric sessions]
command = /usr/local/bin/sessions --kind 'of web'

[metric users]
file = /run/users
max-age = 60
rate = no

[metric cache]
file = /run/cache.json
field = 0.hits

[metric threads]
command = /bin/cat /run/metrics
sample = threads
"""


def options(path: Path, text: str, *arguments: str) -> AgentOptions:
    path.write_text(text)
    path.chmod(0o644)
    parser = cli.build_parser()
    return cli.read_options(*merge(parser, ["--config", str(path), *arguments]))


def url(text: str) -> UrlSource:
    return UrlSource(parse_page_url(text, "http://x/metrics"))


def test_every_section_and_key(tmp_path: Path) -> None:
    found = options(tmp_path / "agent.conf", EVERYTHING)
    assert found.collectors == (Endpoint("ns1.example.net", 7777), Endpoint("192.0.2.1", 1))
    assert (found.interval, found.name, found.pool) == (0.5, "gandalf", "web")
    assert (found.key_file, found.addresses) == (Path("/etc/lbdns/agent.key"), ("192.0.2.7", "2001:db8::7"))
    assert [str(each) for each in found.collector_urls] == ["http://ns1:8053"]
    assert found.alarms == (AlarmCondition("run_queue", ">", 5), AlarmCondition("queue_length", ">=", 100))
    assert (found.agent_check, found.agent_check_file) == (Endpoint("", 7778), Path("/run/order"))
    assert found.serve == Endpoint("127.0.0.1", 5555)
    assert (found.gateway, found.cgroup, found.status) == (None, "/web", None)
    page = parse_page_url("http://127.0.0.1:8080/nginx_status", "")
    assert found.web_server == WebServerOptions("nginx", page, 512.0, frozenset(), Endpoint("::1", 443))
    assert found.metrics == (
        MetricDefinition("queue_length", url("http://127.0.0.1:9000/stats?x=1"), JsonField(("queue", "length"))),
        MetricDefinition(
            "jobs", url("https://127.0.0.1:9001/metrics"),
            PrometheusSample("jobs_total", frozenset({("queue", "mail")})), is_rate=True,
        ),
        MetricDefinition("sessions", CommandSource(("/usr/local/bin/sessions", "--kind", "of web")), PlainNumber()),
        MetricDefinition("users", FileSource("/run/users", 60.0), PlainNumber()),
        MetricDefinition("cache", FileSource("/run/cache.json"), JsonField(("0", "hits"))),
        MetricDefinition("threads", CommandSource(("/bin/cat", "/run/metrics")), PrometheusSample("threads")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("haproxy = /run/a.sock", WebServerOptions("haproxy", "/run/a.sock")),
        (
            "haproxy = http://127.0.0.1:8404/stats;csv\nproxies = web, api other\n",
            WebServerOptions(
                "haproxy", parse_page_url("http://127.0.0.1:8404/stats;csv", ""), None,
                frozenset({"web", "api", "other"}), Endpoint("127.0.0.1", 8404),
            ),
        ),
        (
            "nginx = http://127.0.0.1/",
            WebServerOptions("nginx", parse_page_url("http://127.0.0.1/", ""), watch=Endpoint("127.0.0.1", 80)),
        ),
    ],
)  # fmt: skip
def test_web_servers(tmp_path: Path, text: str, expected: WebServerOptions) -> None:
    assert options(tmp_path / "agent.conf", f"[web-server]\n{text}\n", "--once").web_server == expected


def test_the_command_line_wins(tmp_path: Path) -> None:
    arguments = ("--collector", "ns9", "--interval", "2", "--gateway", "auto", "--alarm", "off", "--name", "frodo")
    found = options(tmp_path / "agent.conf", EVERYTHING, *arguments, "--server-status", "off")
    assert (found.collectors, found.interval, found.gateway) == ((Endpoint("ns9", 7777),), 2.0, "auto")
    assert (found.alarms, found.name, found.web_server, found.status) == ((), "frodo", None, None)
    assert found.pool == "web", "what the command line leaves out is from the file"
    default = options(tmp_path / "agent.conf", "[agent]\ngateway = off\n", "--once", "--gateway", "off")
    assert default.gateway is None
    assert not options(tmp_path / "agent.conf", "", "--once", "--server-status", "off").finds_web_server
    assert options(tmp_path / "agent.conf", "", "--once").finds_web_server


def test_the_default_file_need_not_exist(tmp_path: Path) -> None:
    parser = cli.build_parser()
    path = tmp_path / "agent.conf"
    assert merge(parser, ["--once"], path)[0].interval == 1.0
    path.write_text("[agent]\ninterval = 7\n")
    assert merge(parser, ["--once"], path)[0].interval == 7.0
    with pytest.raises(ConfigError, match="absent: cannot read the configuration file: No such file or directory"):
        merge(parser, ["--config", str(tmp_path / "absent")], path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not a text file in UTF-8"):
        merge(parser, ["--once"], path)


SOURCE = "json = http://127.0.0.1/\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[agent]\n\ncolector = ns1\n", ":3: [agent] colector: unknown key. Perhaps you meant 'collector'?"),
        ("[agent]\nonce = yes\n", ":2: [agent] once: unknown key"),
        ("[agent]\ninterval = soon\n", ":2: [agent] interval: must be a number of seconds from 0.1 to 3600"),
        ("[agent]\nlog-level = loud\n", ":2: [agent] log-level: must be one of debug, info, warning, error"),
        ("[agent]\nname =\n", ":2: [agent] name: the value is missing"),
        ("[agent]\nserver-status = off\n[web-server]\nnginx = http://127.0.0.1\n",
         ":2: [agent] server-status: can't be combined with the section [web-server]; remove one"),
        ("[web-servers]\n", ":1: unknown section [web-servers]. Perhaps you meant 'web-server'?"),
        ("[metric]\n", ":1: unknown section [metric]"),
        ("[web-server]\n", ":1: [web-server] names no web server; write one of nginx, haproxy"),
        ("[web-server]\nnginx = http://a\nhaproxy = /b\n", ":1: [web-server] names more than one web server"),
        ("[web-server]\nnginx = nginx_status\n", ":2: [web-server] nginx: 'nginx_status' is not the URL"),
        ("[web-server]\nnginx = http://a\nproxies = web\n", ":3: [web-server] proxies: applies only to 'haproxy'"),
        ("[web-server]\nhaproxy = a.sock\n", ":2: [web-server] haproxy: must be the path of HAProxy's stat"),
        ("[web-server]\nhaproxy = http://a/stats\n", ":2: [web-server] haproxy: the URL must end in ';csv'"),
        ("[web-server]\nhaproxy = /a\nproxies = ,\n", ":3: [web-server] proxies: must name at least one front end"),
        ("[web-server]\nhaproxy = /a\nworkers = 0\n", ":3: [web-server] workers: must be an integer from 1 to"),
        ("[web-server]\nhaproxy = /a\nwatch = 127.0.0.1\n", ":3: [web-server] watch: must be ADDRESS:PORT"),
        ("[web-server]\nhaproxy = /a\nport = 80\n", ":3: [web-server] port: unknown key"),
        (f"[metric Queue]\n{SOURCE}", ":1: [metric Queue]: the name must consist of at most 40 lower-case letters"),
        (f"[metric {'x' * 41}]\n{SOURCE}", "the name must consist of at most 40 lower-case letters"),
        (f"[metric score]\n{SOURCE}", ":1: [metric score]: the server uses this name; choose another"),
        (f"[metric a]\n{SOURCE}[metric  a]\n{SOURCE}", ":3: [metric  a]: this metric is already defined"),
        ("[metric a]\n", ":1: [metric a] lacks a source; write one of json, prometheus, command, file"),
        (f"[metric a]\n{SOURCE}file = /b\n", ":1: [metric a] gives more than one source"),
        (f"[metric a]\n{SOURCE}sample = b\n", ":3: [metric a] sample: doesn't apply to 'json'"),
        ("[metric a]\nprometheus = http://b\n", ":1: [metric a] lacks the key 'sample'"),
        ("[metric a]\nprometheus = http://b\nsample = 1\n", ":3: [metric a] sample: '1' must be NAME or NAME{"),
        ("[metric a]\nprometheus = http://b\nfield = c\n", ":3: [metric a] field: doesn't apply to 'prometheus'"),
        ("[metric a]\nfile = /b\nsample = c\nfield = d\n", ":3: [metric a] sample: can't be combined with 'field'"),
        ("[metric a]\nfile = b\n", ":2: [metric a] file: must be an absolute path, not 'b'"),
        ("[metric a]\nfile = /b\nmax-age = 0\n", ":3: [metric a] max-age: must be a number of seconds above 0"),
        (f"[metric a]\n{SOURCE}max-age = 5\n", ":3: [metric a] max-age: applies only to 'file'"),
        (f"[metric a]\n{SOURCE}rate = on\n", ":3: [metric a] rate: must be yes or no, not 'on'"),
        (f"[metric a]\n{SOURCE}field = b.\n", ":3: [metric a] field: 'b.' must be a path such as queue.length"),
        (f"[metric a]\n{SOURCE}fields = b\n", ":3: [metric a] fields: unknown key. Perhaps you meant 'field'?"),
        ("[metric a]\njson = http://u:p@b/\n", ":2: [metric a] json: 'http://u:p@b/': must not contain a user name"),
        ("[metric a]\ncommand = b\n", ":2: [metric a] command: must begin with the absolute path of a program"),
        ("[metric a]\ncommand = /b 'c\n", ":2: [metric a] command: \"/b 'c\": No closing quotation"),
        ("[metric a]\ncommand =\n", ":2: [metric a] command: must begin with the absolute path"),
    ],
)  # fmt: skip
def test_errors_name_the_line_and_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(text)
    path.chmod(0o644)
    assert cli.main(["--config", str(path), "--once"]) == 2
    shown = capsys.readouterr()
    assert f"lbdns-agent: {path}:" in shown.err
    assert error in shown.err
    assert len(shown.err.splitlines()) == 1, shown.err
    assert shown.out == ""


def test_all_errors_are_shown_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = "[agent]\ninterval = x\n[metric a]\nfile = b\nmax-age = c\n[metric B]\njson = d\n[web-server]\nworkers = e\n"
    with pytest.raises(ConfigError) as raised:
        options(tmp_path / "agent.conf", text, "--once")
    lines = [int(finding.split(":")[1]) for finding in raised.value.findings]
    assert lines == [2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_with_a_command_must_not_be_writable_by_others(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "agent.conf"
    path.write_text("[metric a]\ncommand = /bin/true\n")
    path.chmod(mode)
    parser = cli.build_parser()
    with pytest.raises(ConfigError, match=rf"mode 0{mode:o} lets other users change the file.*run 'chmod go-w {path}'"):
        merge(parser, ["--config", str(path)])
    path.write_text("[metric a]\nfile = /run/a\n")
    assert merge(parser, ["--config", str(path)])[1].metrics, "without a command, any mode will do"


def test_a_file_with_a_command_must_belong_to_root_or_the_agents_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.conf"
    path.write_text("[metric a]\ncommand = /bin/true\n")
    path.chmod(0o600)
    real = os.fstat

    def of_somebody_else(fd: int) -> os.stat_result:
        values: list[Any] = list(real(fd))
        values[4] = os.geteuid() + 1
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", of_somebody_else)
    with pytest.raises(ConfigError, match=r"belongs to another user.*run 'chown root"):
        merge(cli.build_parser(), ["--config", str(path)])


def test_metrics_must_fit_into_a_report(tmp_path: Path) -> None:
    def text(number: int) -> str:
        return "".join(f"[metric a_metric_with_a_long_name_{i:02}]\nfile = /run/{i}\n" for i in range(number))

    assert len(options(tmp_path / "agent.conf", text(10), "--once").metrics) == 10
    for number, metrics in ((20, "standard"), (10, "all")):
        with pytest.raises(ConfigError, match="the configuration file defines do not fit into a report"):
            options(tmp_path / "agent.conf", text(number), "--once", "--metrics", metrics)


def test_all_metrics(tmp_path: Path) -> None:
    assert options(tmp_path / "agent.conf", "[agent]\nmetrics = all\n", "--once").all_metrics
    with pytest.raises(ConfigError, match="metrics: must be one of standard, all, not 'some'"):
        options(tmp_path / "agent.conf", "[agent]\nmetrics = some\n", "--once")


def test_an_alarm_may_use_a_metric_that_replaces_another_one(tmp_path: Path) -> None:
    found = options(tmp_path / "agent.conf", "[metric load5]\nfile = /run/load\n", "--once", "--alarm", "load5 > 9")
    assert found.alarms == (AlarmCondition("load5", ">", 9),)


def test_alarms_may_use_metrics_of_the_file_only(tmp_path: Path) -> None:
    found = options(tmp_path / "agent.conf", EVERYTHING, "--alarm", "nginx_waiting > 500")
    assert found.alarms == (AlarmCondition("nginx_waiting", ">", 500),)
    with pytest.raises(ConfigError, match=r"unknown metric 'queue_lenth'\. Perhaps you meant 'queue_length'"):
        options(tmp_path / "agent.conf", EVERYTHING, "--alarm", "queue_lenth > 5")
