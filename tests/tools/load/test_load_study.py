"""Tests of converting command-line options to points and planned runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.load_study import PlannedRun, make_study
from lbdns_tools.load.request_mix import file_set, one_url
from lbdns_tools.load.result_rows import LoadPoint
from tests.tools.load.load_command_line import said

URL = "http://a/"
MIX = one_url(URL)


def study(arguments: str) -> tuple[PlannedRun, ...]:
    return make_study(said(*arguments.split()))


def loads(arguments: str) -> list[ClosedLoop | OpenLoop]:
    return [phase.load for planned in study(arguments) for phase in planned.run.phases]


def test_nothing_but_a_url() -> None:
    (planned,) = study(URL)
    phase = LoadPhase(0.0, ClosedLoop(20, 10.0), MIX, URL)
    assert planned.run == LoadRun(ResolveRule("system"), label="20 clients", phases=(phase,))
    assert planned.point == LoadPoint(URL, 20, None, "system", False)
    assert planned.again(1) == planned.run
    assert (planned.again(3).seed, planned.again(3).label) == (3, "20 clients, run 3")


def test_a_sweep_of_clients() -> None:
    assert loads(f"{URL} --clients 20..40/10 --seconds 5 --think 0.5") == [
        ClosedLoop(20, 5.0, think_s=0.5), ClosedLoop(30, 5.0, think_s=0.5), ClosedLoop(40, 5.0, think_s=0.5),
    ]  # fmt: skip
    assert loads(f"{URL} --clients 5 --requests 500") == [ClosedLoop(5, 0.0, 500)]
    assert loads(f"{URL} --clients 5 --requests 500 --seconds 3") == [ClosedLoop(5, 3.0, 500)]
    assert [planned.point.clients for planned in study(f"{URL} --clients 1,2")] == [1, 2]


def test_a_sweep_of_rates() -> None:
    assert loads(f"{URL} --rate 400..1200/400 --seconds 60") == [
        OpenLoop((400.0,), 60.0), OpenLoop((800.0,), 60.0), OpenLoop((1200.0,), 60.0),
    ]  # fmt: skip
    assert loads(f"{URL} --rate 400 --requests 30000 --spacing poisson") == [
        OpenLoop((400.0,), 75.0, "poisson", requests=30000)
    ]
    assert loads(f"{URL} --rate 5") == [OpenLoop((5.0,), 10.0)]
    assert [planned.point.rate_per_s for planned in study(f"{URL} --rate 1,2")] == [1, 2]


def test_ramps_and_traces(tmp_path: Path) -> None:
    assert loads(f"{URL} --ramp 10..200..10 --seconds 60") == [OpenLoop((10.0, 200.0, 10.0), 30.0, ramp=True)]
    (tmp_path / "day.csv").write_text("hour,rate\n0,0\n1,50\n2,100\n")
    trace = f"{URL} --trace {tmp_path}/day.csv --trace-column rate --seconds 30"
    assert loads(trace) == [OpenLoop((0.0, 50.0, 100.0), 10.0)]
    assert loads(f"{trace} --min 10 --max 20") == [OpenLoop((10.0, 15.0, 20.0), 10.0)]
    assert loads(f"{trace} --max 20") == [OpenLoop((0.0, 10.0, 20.0), 10.0)]
    assert study(trace)[0].point.rate_per_s is None
    with pytest.raises(ConfigError, match=r"^--trace: .*specify a column by its name or its number"):
        loads(f"{URL} --trace {tmp_path}/day.csv --seconds 30")


def test_an_access_log(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(f'a - - [28/Aug/1995:00:00:0{at} +0000] "GET /{at} HTTP/1.0" 200 5\n' for at in (0, 0, 3)))
    notes: list[str] = []
    replayed = f"--access-log {path} --base http://a/x"
    (planned,) = make_study(said(*f"{replayed} --seconds 2 --min 10 --max 20 --label day".split()), notes.append)
    (phase,) = planned.run.phases
    assert (phase.load, phase.label, phase.mix.order, notes) == (OpenLoop((20.0, 10.0), 1.0), "day", "log", [])
    assert [str(target) for target in phase.mix.targets] == ["http://a/x/0", "http://a/x/3"]
    assert loads(replayed) == [OpenLoop((2.0, 0.0, 0.0, 1.0), 1.0)]
    assert study(f"{replayed} --url-order random")[0].run.phases[0].mix.order == "random"
    path.write_text("x\n")
    with pytest.raises(ConfigError, match=r"^--access-log: .*access\.log: 1 of 1 lines are not valid"):
        study(replayed)
    path.write_text('a - - [28/Aug/1995:00:00:00 +0000] "GET / HTTP/1.0" 200 5\n')
    with pytest.raises(ConfigError, match=r"^--base: 'a' is not a valid URL"):
        study(f"--access-log {path} --base a")


def test_what_counts_comes_behind_the_warm_up() -> None:
    (planned,) = study(f"{URL} --clients 5 --seconds 10 --warm-up 3")
    assert planned.run.phases == (LoadPhase(0.0, ClosedLoop(5, 13.0), MIX, URL),)
    assert (planned.run.warm_up_s, planned.run.seconds) == (3, 13)
    (planned,) = study(f"{URL} --rate 5 --requests 50 --warm-up 3 --spacing poisson")
    assert planned.run.phases == (
        LoadPhase(3.0, OpenLoop((5.0,), 10.0, "poisson", requests=50), MIX, URL),
        LoadPhase(0.0, OpenLoop((5.0,), 3.0, "poisson"), MIX, f"{URL} (warm-up)"),
    )
    assert (planned.run.warm_up_s, planned.run.seconds) == (3, 13)


def test_phases(tmp_path: Path) -> None:
    path = tmp_path / "phases.toml"
    path.write_text(
        f'[[phase]]\nrate = 1\nseconds = 2\nurl = "{URL}"\n[[phase]]\nclients = 3\nseconds = 5\nurl = "{URL}"\n'
    )
    (planned,) = study(f"--phases {path}")
    assert [phase.load for phase in planned.run.phases] == [OpenLoop((1.0,), 2.0), ClosedLoop(3, 5.0)]
    assert planned.point == LoadPoint("phases.toml", None, None, "system", False)
    path.write_text("[[phase]]\nrate = 1\nseconds = 2\n")
    assert study(f"{URL} --phases {path}")[0].run.phases[0].mix == MIX
    with pytest.raises(ConfigError, match="a target is required"):
        study(f"--phases {path}")


def test_targets(tmp_path: Path) -> None:
    (planned,) = study("--files mixed --base http://a:81")
    assert planned.run.phases[0].mix == file_set("mixed", "http://a:81")
    assert planned.point.label == "mixed"
    path = tmp_path / "urls.txt"
    path.write_text("http://a/1\nhttp://a/2 5\n")
    (planned,) = study(f"--urls {path} --label mine")
    assert [target.path for target in planned.run.phases[0].mix.targets] == ["/1", "/2"]
    assert (planned.point.label, planned.run.phases[0].label) == ("mine", "mine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("ftp://a/", "URL: 'ftp://a/': the scheme ftp is not supported"),
        ("--files html --base a", "--base: 'a' is not a valid URL"),
        ("--urls /none/there", "--urls: /none/there: cannot read the file"),
        ("--phases /none/there", "/none/there: cannot read the file"),
        (f"{URL} --rate 10 --resolve 1999", "--resolve 1999 requires a number of clients or a time"),
        (f"{URL} --resolver 127.0.0.1 --resolve system", "--resolve system and --resolver cannot be combined"),
    ],
)
def test_errors(arguments: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        study(arguments)
    assert message in str(error.value)


def test_how_names_are_resolved() -> None:
    def resolve(arguments: str) -> ResolveRule:
        return study(f"{URL} {arguments}")[0].run.resolve

    server = Endpoint("127.0.0.1", 5300)
    assert resolve("--resolver 127.0.0.1:5300") == ResolveRule("connection", 0.0, server)
    assert resolve("--resolver 127.0.0.1:5300 --resolve webstone:4s") == ResolveRule("webstone", 4.0, server)
    assert resolve("--resolve ttl") == ResolveRule("ttl")
    assert resolve("--resolve 1999 --clients 60") == ResolveRule("1999", 60.0)
    assert resolve("--resolve 1999:20s --clients 60") == ResolveRule("1999", 20.0)
    assert resolve("--resolve 1999:20s --rate 60") == ResolveRule("1999", 20.0)


def test_how_it_is_sent() -> None:
    run = study(f"{URL} --keep-alive --timeout 2.5 --max-connections 7 --seed 9")[0].run
    assert (run.keep_alive, run.timeout_s, run.max_connections, run.seed) == (True, 2.5, 7, 9)
