"""Tests of parsing the scenario options of a command line, and of the error messages."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns_tools.sim import scenario_parsers as parsers
from lbdns_tools.sim.simulation_scenario import FARMS, OtherWork, Outage, ServerSpec, SimulatedClients, Slowdown, Surge

SERVERS = (ServerSpec("s1", 1.1, 1), ServerSpec("s2", 0.7, 1), ServerSpec("s3", 2, 2))


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parsers.parse_servers, "1.1x1,0.7x1,2x2", SERVERS),
        (parsers.parse_servers, " 1.1x1 , 0.7 x 1,2x2", SERVERS),
        (parsers.parse_servers, "web=.5x8,2x2", (ServerSpec("web", 0.5, 8), ServerSpec("s2", 2, 2))),
        (parsers.parse_servers, "1x1", (ServerSpec("s1"),)),
        (parsers.parse_servers, "T3", FARMS["T3"]),
        (parsers.parse_servers, "u10", FARMS["U10"]),
        (parsers.parse_clients, "open", SimulatedClients()),
        (parsers.parse_servers, "web=1x2/0.4", (ServerSpec("web", 1.0, 2.0, quota=0.4),)),
        (parsers.parse_clients, "closed:20", SimulatedClients("closed", 20)),
        (parsers.parse_clients, "closed:20:0.5", SimulatedClients("closed", 20, 0.5)),
        (parsers.parse_clients, "closed:20:0", SimulatedClients("closed", 20, 0.0)),
        (parsers.parse_clients, "1999:20", SimulatedClients("closed", 20, 20.0, as_1999=True)),
        (parsers.parse_clients, "caches:200", SimulatedClients("caches", 200)),
        (parsers.parse_clients, "caches:2:0.5", SimulatedClients("caches", 2, shortest=0.5, longest=0.5)),
        (
            parsers.parse_clients_list,
            "closed:20,closed:40",
            (SimulatedClients("closed", 20), SimulatedClients("closed", 40)),
        ),
        (parsers.parse_kill, "s1@60", Outage("s1", 60.0, math.inf)),
        (parsers.parse_kill, "s1@60-90.5", Outage("s1", 60.0, 90.5)),
        (parsers.parse_kill, "a@b@60", Outage("a@b", 60.0)),
        (parsers.parse_hang, "web-1@0-1", Outage("web-1", 0.0, 1.0, service_only=True)),
        (parsers.parse_hide_status, "s1@60", Outage("s1", 60.0, page_only=True)),
        (parsers.parse_slow, "s1:0.5@60-90", Slowdown("s1", 60.0, 90.0, 0.5)),
        (parsers.parse_surge, "2.5@60-90", Surge(60.0, 90.0, 2.5)),
        (parsers.parse_surge, "ber:2.5@60-90", Surge(60.0, 90.0, 2.5, "ber")),
        (parsers.parse_other_work, "s1:4@60-90", OtherWork("s1", 60.0, 90.0, 4.0)),
        (parsers.parse_alarm, "listen_queue>256", "listen_queue > 256"),
        (parsers.parse_alarm, "run_queue/cpu >= 64", "run_queue/cpu >= 64"),
        (parsers.parse_loads, "0.5, .7", (0.5, 0.7)),
        (parsers.parse_workloads, "html,mix", ("html", "mix")),
        (parsers.parse_policies, "best,oracle,best", ("best", "oracle")),
        (parsers.parse_policies, "best,best:nearest", ("best", "best:nearest")),
    ],
)
def test_what_is_read(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parsers.parse_servers, "U11", "Perhaps you meant 'U10'?"),
        (parsers.parse_servers, "", "it must not contain empty items"),
        (parsers.parse_servers, "1x1,,1x1", "it must not contain empty items"),
        (parsers.parse_servers, "1x1,2", "'2' is not a valid server; write SPEEDxCORES"),
        (parsers.parse_servers, "1x", "'1x' is not a valid server"),
        (parsers.parse_servers, "-1x1", "is not a valid server"),
        (parsers.parse_servers, "1x1/", "is not a valid server"),
        (parsers.parse_servers, "1x1/0", "the quota is 0, but must be above 0"),
        (parsers.parse_servers, "0x1", "speed is 0"),
        (parsers.parse_servers, "1x0", "cores is 0"),
        (parsers.parse_servers, "9999999999x1", "at most 1e+06"),
        (parsers.parse_servers, "a=1x1,a=2x2", "two servers are named 'a'"),
        (parsers.parse_servers, ",".join(["1x1"] * 1001), "more than 1000 servers"),
        (parsers.parse_clients, "opne", "Perhaps you meant 'open'?"),
        (parsers.parse_clients, "open:3", "examples are open, closed:20"),
        (parsers.parse_clients, "closed", "examples are open, closed:20"),
        (parsers.parse_clients, "1999:20:5", "1999:20"),
        (parsers.parse_clients, "closed:0", "must be a whole number from 1"),
        (parsers.parse_clients, "closed:3:-1", "but must be from 0 (a lookup before every request) to 1e+09"),
        (parsers.parse_clients, "caches:x", "the number of caches is 'x'"),
        (parsers.parse_clients, "caches:2:0", "for which an answer is cached is '0'"),
        (parsers.parse_clients, "caches:2:1:1", "examples are open, closed:20"),
        (parsers.parse_kill, "s1", "is not valid; write NAME@T"),
        (parsers.parse_kill, "s1@9-3", "the end at 3 s must be later than the start at 9 s"),
        (parsers.parse_surge, "2@60", "is not valid; write [SITE:]FACTOR@T-T2"),
        (parsers.parse_surge, "x@60-90", "the factor is 'x'"),
        (parsers.parse_other_work, "s1@60-90", "the number of tasks is missing"),
        (parsers.parse_other_work, "s1:0@60-90", "the number of tasks is '0'"),
        (parsers.parse_slow, "s1:0@60-90", "the factor is '0'"),
        (parsers.parse_alarm, "listen_queue", "is not a valid condition; write, for example"),
        (parsers.parse_alarm, "listen_que>256", "Perhaps you meant 'listen_queue'?"),
        (parsers.parse_loads, "0", "must be a number above 0"),
        (parsers.parse_loads, "11", "at most 10"),
        (parsers.parse_loads, "nan", "must be a number above 0"),
        (parsers.parse_workloads, "htm", "Perhaps you meant 'html'?"),
        (parsers.parse_policies, "best:neerest", "Perhaps you meant 'best:nearest'?"),
        (parsers.parse_policies, "bst", "'bst' is not a valid policy. Perhaps you meant 'best'?"),
    ],
)
def test_what_is_wrong_and_what_instead(parse: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        parse(text)
    assert message in str(error.value)


@settings(deadline=None)
@given(
    st.one_of(
        st.just(SimulatedClients()),
        st.builds(
            SimulatedClients,
            st.just("closed"),
            st.integers(1, parsers.MAX_CLIENTS),
            st.integers(1, 99999).map(lambda n: n / 100),
        ),
        st.integers(1, parsers.MAX_CLIENTS).map(lambda n: SimulatedClients("closed", n, float(n), as_1999=True)),
        st.builds(SimulatedClients, st.just("caches"), st.integers(1, parsers.MAX_CLIENTS)),
        st.builds(
            lambda count, kept: SimulatedClients("caches", count, shortest=kept, longest=kept),
            st.integers(1, parsers.MAX_CLIENTS),
            st.integers(1, 99999).map(lambda n: n / 100),
        ),
    )
)
def test_clients_are_read_as_they_are_written(clients: SimulatedClients) -> None:
    assert parsers.parse_clients(parsers.clients_text(clients)) == clients


PARSERS = (
    parsers.parse_servers,
    parsers.parse_clients,
    parsers.parse_kill,
    parsers.parse_hang,
    parsers.parse_surge,
    parsers.parse_other_work,
    parsers.parse_hide_status,
    parsers.parse_slow,
    parsers.parse_loads,
    parsers.parse_workloads,
    parsers.parse_policies,
    parsers.parse_clients_list,
)


@pytest.mark.parametrize("parse", PARSERS)
@settings(deadline=None)
@given(text=st.one_of(st.text(), st.text(alphabet="s1x.,@-:=0pencaloshd")))
def test_only_a_value_error_comes_of_anything(parse: Callable[[str], Any], text: str) -> None:
    with contextlib.suppress(ValueError):
        parse(text)
