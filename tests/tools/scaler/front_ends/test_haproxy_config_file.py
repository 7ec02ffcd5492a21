"""The marked block in HAProxy's configuration file: nothing outside it ever changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.front_ends.front_end import FrontEndError
from lbdns_tools.scaler.front_ends.haproxy_config_file import BEGIN, END, HaproxyConfigFile, find_block, server_line

TEXT = f"""\
global
    maxconn 100

backend web   # the farm
    balance roundrobin
    server static 192.0.2.99:80 check
\t{BEGIN}
\tserver web-1 192.0.2.1:80 check inter 1s
\tserver web-2 [2001:db8::2]:80 check inter 1s disabled
\t{END}

backend other
    server static 192.0.2.98:80
"""


def test_block() -> None:
    block = find_block(TEXT, "web")
    assert block.servers == {
        "web-1": server_line("192.0.2.1", 80, "check inter 1s", disabled=False),
        "web-2": server_line("2001:db8::2", 80, "check inter 1s", disabled=True),
    }
    assert block.with_servers(block.servers) == TEXT
    emptied = block.with_servers({})
    assert emptied == TEXT.replace("\tserver web-1 192.0.2.1:80 check inter 1s\n", "").replace(
        "\tserver web-2 [2001:db8::2]:80 check inter 1s disabled\n", ""
    )
    assert find_block(emptied, "web").servers == {}
    assert find_block(TEXT.replace("backend web ", "listen web "), "web").servers == block.servers


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "there is no block; add the lines"),
        (TEXT.replace(END, "# the end"), "there must be exactly one line"),
        (TEXT.replace(BEGIN, END), "there must be exactly one line"),
        (TEXT + f"{BEGIN}\n{END}\n", "there must be exactly one line"),
        (TEXT.replace(BEGIN, "x").replace(END, BEGIN).replace("\tx", f"\t{END}"), "there must be exactly one line"),
        (TEXT.replace("backend web ", "backend www "), "line 7: the block must be in .* but is in .* 'backend www'"),
        (f"{BEGIN}\n{END}\n", "line 1: .* but is before the first section"),
        (TEXT.replace("\tserver web-1", "\tbalance"), "line 8: 'balance 192.*': only lbdns-scaler may write between"),
    ],
)
def test_blocks_that_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        find_block(text, "web")


OUTSIDE = st.text(st.characters(codec="utf-8", exclude_characters="\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), max_size=100)
SERVERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
    st.builds(
        server_line,
        st.one_of(st.ip_addresses().map(str)),
        st.integers(1, 65535),
        st.sampled_from(["check", "check inter 2s", "check agent-check agent-port 7778"]),
        st.booleans(),
    ),
    max_size=5,
)


@given(OUTSIDE, OUTSIDE, SERVERS)
def test_what_is_written_is_read_again(before: str, after: str, servers: dict[str, object]) -> None:
    head, tail = f"{before}\nbackend web\n  {BEGIN}\n", f"  {END}\n{after}"
    text = find_block(head + tail, "web").with_servers(servers)  # type: ignore[arg-type]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert find_block(text, "web").servers == servers


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FrontEndError, match="cannot read the file: No such file"):
        HaproxyConfigFile(tmp_path / "nothing", "web").servers()
    path = tmp_path / "haproxy.cfg"
    path.write_bytes(b"\xff")
    with pytest.raises(FrontEndError, match=r"haproxy\.cfg: .*codec can't decode"):
        HaproxyConfigFile(path, "web").servers()
