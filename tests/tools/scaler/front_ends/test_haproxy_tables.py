"""HAProxy's tables, as version 2.6 prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.front_ends.haproxy_tables import (
    CHECK_PASSED,
    HaproxyServer,
    StatRow,
    parse_info,
    parse_servers_state,
    parse_stat,
)

STATE = """\
1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr \
srv_agent_port
3 web 1 web-9 127.0.0.1 0 5 1 1 1 1 0 0 14 0 0 0 - 18981 - 0 0 - - 0
3 web 2 web-1 2001:db8::1 2 8 75 100 1 6 3 4 6 22 0 0 - 80 - 0 0 - - 18990

"""
STAT = """\
# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,bck,\
chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,rate_lim,rate_max,check_status,
web,web-1,2,0,3,0,,120,0,0,,0,,0,0,0,0,UP,1,1,0,0,0,0,1,,1,3,2,,0,,2,17,,0,L4OK,
web,BACKEND,0,0,3,0,20,125,0,0,0,0,,0,0,0,0,UP,1,1,0,,0,0,2,,1,3,0,,0,,1,18,,0,,

"""


def test_servers() -> None:
    drained = HaproxyServer("web-1", "2001:db8::1", 80, 2, 8, 75, 3)
    assert parse_servers_state(STATE) == {
        "web-9": HaproxyServer("web-9", "127.0.0.1", 18981, 0, 5, 1, 0),
        "web-1": drained,
    }
    assert drained.check_result in CHECK_PASSED


@pytest.mark.parametrize(
    ("op_state", "admin_state", "weight", "serving", "in_maintenance", "in_drain"),
    [
        (2, 0, 1, True, False, False),
        (1, 0, 1, True, False, False),  # slow start
        (2, 4, 1, True, False, False),  # was disabled in the configuration file, and then enabled
        (0, 0, 1, False, False, False),  # the health check has failed
        (3, 0, 1, False, False, False),  # soft stop (http-check disable-on-404)
        (2, 0, 0, False, False, False),  # weight 0 from an agent
        (0, 1, 1, False, True, False),
        (0, 5, 1, False, True, False),
        (2, 8, 1, False, False, True),
        (2, 16, 1, False, False, False),  # drained because the server that it tracks is
        (0, 32, 1, False, False, False),  # its name has no address
        (0, 64, 1, False, False, False),
        (0, 9, 1, False, True, True),
    ],
)
def test_states(
    op_state: int, admin_state: int, weight: int, serving: bool, in_maintenance: bool, in_drain: bool
) -> None:
    server = HaproxyServer("web-1", "192.0.2.1", 80, op_state, admin_state, weight, 3)
    assert (server.serving, server.in_maintenance, server.in_drain) == (serving, in_maintenance, in_drain)


def test_statistics() -> None:
    assert parse_stat(STAT) == {
        "web-1": StatRow("web-1", 120, 5, 17, "L4OK"),
        "BACKEND": StatRow("BACKEND", 125, 3, 18, ""),
    }


def test_info() -> None:
    assert parse_info("Name: HAProxy\nUptime: 0d 0h00m02s\nUptime_sec: 2\n\n") == {
        "Name": "HAProxy", "Uptime": "0d 0h00m02s", "Uptime_sec": "2",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "Can't find backend.\n", "2\n# srv_name\n", "1\n# be_id srv_name\n3 web-1\n"])
def test_what_is_not_a_table_of_servers(text: str) -> None:
    with pytest.raises(ValueError, match="show servers state"):
        parse_servers_state(text)


@pytest.mark.parametrize("text", ["", "Permission denied\n", "# pxname,svname\nweb,web-1\n"])
def test_what_is_not_a_table_of_statistics(text: str) -> None:
    with pytest.raises(ValueError, match=r"HAProxy's statistics|statistics table"):
        parse_stat(text)


@given(st.text(max_size=300), st.integers(0, len(STATE)), st.integers(0, len(STAT)))
def test_anything_else_is_a_value_error(text: str, state_at: int, stat_at: int) -> None:
    for parse, given_text in (
        (parse_servers_state, STATE[:state_at] + text + STATE[state_at:]),
        (parse_stat, STAT[:stat_at] + text + STAT[stat_at:]),
    ):
        try:
            found = parse(given_text)
        except ValueError:
            continue
        assert all(name == row.name for name, row in found.items())
