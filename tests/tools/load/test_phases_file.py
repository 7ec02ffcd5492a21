"""Tests of reading TOML files that describe overlapping load phases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, OpenLoop
from lbdns_tools.load.phases_file import read_phases
from lbdns_tools.load.request_mix import file_set, one_url

MIX = one_url("http://best.hobbit/")

#: The load by which the reactive scaler was shown, its second half shortened
OVERLAPPING = """\
[[phase]]
rate = 1
requests = 1200

[[phase]]
name = "more"
begin = 120
rate = 10
requests = 4800
spacing = "poisson"

[[phase]]
begin = 180.5
ramp = "10..40..10"
seconds = 60
url = "http://127.0.0.1:8080/x"

[[phase]]
clients = 20
seconds = 30
think = 0.5
files = "html"
base = "http://a/"

[[phase]]
trace = "day.csv"
column = 2
min = 1
max = 11
seconds = 30
requests = 50
urls = "urls.txt"
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "day.csv").write_text("0,5\n1,10\n2,15\n")
    (tmp_path / "urls.txt").write_text("http://a/1\nhttp://a/2 3\n")
    logged = 'a - - [28/Aug/1995:00:00:0{} +0000] "{} /{} HTTP/1.0" 200 5\n'.format
    (tmp_path / "access.log").write_text(
        logged(0, "GET", 1) + logged(0, "POST", 1) + logged(0, "GET", 2) + logged(1, "GET", 1)
    )
    path = tmp_path / "phases.toml"
    path.write_text(text)
    return path


#: A phase that replays an access log
LOGGED = """\
[[phase]]
access_log = "access.log"
base = "http://a/x"
"""


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    first, second, third, fourth, fifth = read_phases(written(tmp_path, OVERLAPPING), MIX)
    assert first == LoadPhase(0.0, OpenLoop((1.0,), 1200.0, requests=1200), MIX, "phase 1")
    assert second == LoadPhase(120.0, OpenLoop((10.0,), 480.0, "poisson", requests=4800), MIX, "more")
    assert third == LoadPhase(
        180.5, OpenLoop((10.0, 40.0, 10.0), 30.0, ramp=True), one_url("http://127.0.0.1:8080/x"), "phase 3"
    )
    assert fourth == LoadPhase(0.0, ClosedLoop(20, 30.0, think_s=0.5), file_set("html", "http://a/"), "phase 4")
    assert fifth.load == OpenLoop((1.0, 6.0, 11.0), 10.0, requests=50)
    assert [(target.path, target.weight) for target in fifth.mix.targets] == [("/1", 1), ("/2", 3)]


RATE = "[[phase]]\nrate = 1\nseconds = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "phase: at least one [[phase]] with clients, a rate, a ramp, a trace or an access log is required"),
        ("[phase]\nrate = 1\n", "must be an array of tables, written as [[phase]]"),
        ("[[phase]]\nseconds = 5\n", ":1: [phase 1]: one of clients, rate, ramp, trace, access_log is required"),
        ("[[phase]]\nrate = 5\nclients = 5\nseconds = 5\n", ":2: [phase 1] rate: cannot be combined with clients"),
        ("[[phase]]\nrate = 5\n", "phases.toml:1: [phase 1]: a limit is required; specify 'seconds' or 'requests'"),
        ("[[phase]]\nclients = 5\n", "phases.toml:1: [phase 1]: a limit is required; specify 'seconds' or 'requests'"),
        ('[[phase]]\nramp = "1..5"\nrequests = 5\n', "the total duration is required"),
        ("[[phase]]\nrate = 0\nseconds = 1\n", "phases.toml:2: [phase 1] rate: must be a number from 1e-06"),
        ("[[phase]]\nclients = 0\nseconds = 1\n", "phases.toml:2: [phase 1] clients: must be a whole number"),
        ("[[phase]]\nrate = 1\nseconds = 0\n", "phases.toml:3: [phase 1] seconds: must be a number"),
        ("[[phase]]\nrate = 1\nrequests = 0\n", "phases.toml:3: [phase 1] requests: must be a whole number"),
        ('[[phase]]\nramp = "1-5"\nseconds = 1\n', "phases.toml:2: [phase 1] ramp: '1-5' is not a valid ramp"),
        ('[[phase]]\ntrace = "none.csv"\nseconds = 1\n', "phases.toml:2: [phase 1] trace: "),
        ('[[phase]]\ntrace = "day.csv"\nseconds = 1\n', "specify a column by its name or its number"),
        ('[[phase]]\ntrace = "day.csv"\ncolumn = "2"\nmin = 1\nseconds = 1\n', ":4: [phase 1] min: 'min' and 'max'"),
        ('[[phase]]\ntrace = "day.csv"\ncolumn = "2"\nmin = 3\nmax = 1\nseconds = 1\n', "1 is less than 3"),
        (RATE + "think = 1\n", "phases.toml:4: [phase 1] think: 'think' (each client's pause in seconds)"),
        ('[[phase]]\nclients = 5\nseconds = 1\nspacing = "even"\n', "spacing: 'spacing' cannot be combined"),
        (RATE + 'spacing = "evn"\n', "4: [phase 1] spacing: unknown value 'evn'. Perhaps you meant 'even'?"),
        (RATE + "column = 1\n", "phases.toml:4: [phase 1] column: unknown key"),
        (RATE + "begn = 1\n", "phases.toml:4: [phase 1] begn: unknown key. Perhaps you meant 'begin'?"),
        (RATE + "begin = -1\n", "phases.toml:4: [phase 1] begin: must be a number from 0"),
        (RATE + 'name = "a"\n' + RATE + 'name = "a"\n', "phases.toml:8: [phase a] name: two phases are named 'a'"),
        (RATE + 'url = "ftp://a/"\n', "phases.toml:4: [phase 1] url: 'ftp://a/': the scheme ftp"),
        (RATE + 'urls = "none"\n', "phases.toml:4: [phase 1] urls: "),
        (RATE + 'files = "htm"\nbase = "http://a/"\n', "files: unknown value 'htm'. Perhaps you meant 'html'?"),
        (RATE + 'files = "html"\n', "[phase 1] base: is missing"),
        (RATE + 'url = "http://a/"\nfiles = "html"\n', "phases.toml:5: [phase 1] files: cannot be combined with url"),
        (RATE + "[run]\n", "phases.toml:4: run: unknown key"),
        (LOGGED + "requests = 0\n", "phases.toml:4: [phase 1] requests: must be a whole number"),
        (LOGGED + 'url = "http://b/"\n', "phases.toml:4: [phase 1] url: cannot be combined with access_log"),
        (LOGGED + "rate = 1\n", "phases.toml:2: [phase 1] access_log: cannot be combined with rate"),
        (LOGGED + 'url_order = "lg"\n', "url_order: unknown value 'lg'. Perhaps you meant 'log'?"),
        (LOGGED + "max = 1\n", "phases.toml:4: [phase 1] max: 'min' and 'max'"),
        (LOGGED.replace("http", "ftp"), "phases.toml:3: [phase 1] base: 'ftp://a/x': the scheme ftp"),
        (LOGGED.replace("base", "url_ordr"), "phases.toml:1: [phase 1] base: is missing"),
        (LOGGED.replace("access.log", "none.log"), "phases.toml:2: [phase 1] access_log: "),
        ("[[phase]\n", "phases.toml:1: TOML:"),
    ],
)  # fmt: skip
def test_errors_say_where_and_what_instead(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_phases(written(tmp_path, text), MIX)
    assert message in str(error.value)


def test_a_phase_without_a_target(tmp_path: Path) -> None:
    path = written(tmp_path, RATE)
    with pytest.raises(ConfigError, match="a target is required; specify 'url', 'urls' or 'files'"):
        read_phases(path)
    assert read_phases(path, MIX)[0].mix is MIX
    assert read_phases(written(tmp_path, RATE + 'url = "http://b/"\n'))[0].mix == one_url("http://b/")


def test_an_access_log(tmp_path: Path) -> None:
    notes: list[str] = []
    path = written(tmp_path, LOGGED + "min = 1\nmax = 5\nseconds = 4\nrequests = 9\nurl_order = 'even'\n")
    (phase,) = read_phases(path, report=notes.append)
    assert phase.load == OpenLoop((5.0, 1.0), 2.0, requests=9)
    assert ([target.path for target in phase.mix.targets], phase.mix.order) == (["/x/1", "/x/2"], "even")
    assert [note.partition(": ")[2] for note in notes] == ["requests other than GET skipped: 1; the first is line 2"]
    assert read_phases(written(tmp_path, LOGGED))[0].load == OpenLoop((2.0, 1.0), 1.0)


def test_all_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_phases(written(tmp_path, "[[phase]]\nrate = 0\nseconds = -1\nurl = 5\n"), MIX)
    assert len(error.value.findings) >= 3


KEYS = st.sampled_from(
    ["name", "begin", "rate", "ramp", "trace", "clients", "seconds", "requests", "spacing", "think", "url", "urls",
     "files", "base", "column", "min", "max", "access_log", "url_order"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["0", "1", "-1", "5.5", "true", "nan", "[1]", "{a = 1}", '""', '"even"', '"1..5"', '"day.csv"', '"urls.txt"',
     '"html"', '"access.log"', '"http://a/"', "99999999999999"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=5), min_size=1, max_size=3))
def test_any_file_is_phases_or_findings(tmp_path: Path, tables: list[dict[str, str]]) -> None:
    text = "".join("[[phase]]\n" + "".join(f"{key} = {value}\n" for key, value in table.items()) for table in tables)
    try:
        phases = read_phases(written(tmp_path, text), MIX)
    except ConfigError as error:
        assert all(str(tmp_path) in finding for finding in error.findings)  # noqa: PT017 - every finding says where
        return
    assert len(phases) == len(tables)
    assert all(phase.load.length_s > 0 for phase in phases)
