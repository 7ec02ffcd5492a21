from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lbdns_agent.process_stat import descends_from
from lbdns_agent.webserver.web_server_processes import find_socket_owners, process_sockets
from tests.agent.web import ForkingServer


def inode_of(port: int) -> int:
    """Return the inode that /proc/net/tcp lists for the socket that listens on a port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
            return int(fields[9])
    raise AssertionError(f"nobody listens on {port}")


def test_of_a_server_and_its_children_the_first_process_is_found() -> None:
    with ForkingServer(children=3) as server:
        inode = inode_of(server.port)
        assert inode in process_sockets("/proc", server.pid)
        assert all(inode in process_sockets("/proc", child) for child in server.children)
        assert find_socket_owners("/proc", {inode}) == (server.pid,)


def test_servers_that_belong_to_nobody_above_them_are_all_found() -> None:
    with ForkingServer() as one, ForkingServer() as two:
        wanted = {inode_of(one.port), inode_of(two.port)}
        assert find_socket_owners("/proc", wanted) == tuple(sorted((one.pid, two.pid)))


def test_a_socket_of_nobody() -> None:
    assert find_socket_owners("/proc", {2**62}) == ()


def test_who_descends_from_whom() -> None:
    with ForkingServer() as server:
        assert descends_from("/proc", server.pid, [server.pid])
        assert descends_from("/proc", server.children[0], [server.pid])
        assert descends_from("/proc", server.children[0], [os.getpid()])
        assert not descends_from("/proc", os.getpid(), [server.pid])
        assert not descends_from("/proc", 1, [server.pid])
    assert descends_from("/proc", 2**22 + 5, [1234]), "one that is gone is no stranger"


@pytest.fixture
def fake_proc(tmp_path: Path) -> Path:
    """Create processes 1 (systemd), 10 (child of 1), 11 and 12 (children of 10) with socket 77, and 20 without it."""
    for pid, parent, name, sockets in (
        (1, 0, "systemd", [77, 5]), (10, 1, "apache2", [77]), (11, 10, "apache2", [77]), (12, 10, "cgi", [77]),
        (20, 1, "cron", [6]),
    ):  # fmt: skip
        folder = tmp_path / str(pid)
        (folder / "fd").mkdir(parents=True)
        tail = " ".join(["0"] * 40)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {tail}\n")
        (folder / "comm").write_text(f"{name}\n")
        for number, inode in enumerate(sockets, 3):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        (folder / "fd" / "0").symlink_to("/dev/null")
    return tmp_path


def test_the_service_manager_that_keeps_a_socket_is_not_the_server(fake_proc: Path) -> None:
    assert find_socket_owners(str(fake_proc), {77}) == (10,)


def test_the_first_process_of_a_container_is_the_server(fake_proc: Path) -> None:
    (fake_proc / "1" / "comm").write_text("apache2\n")
    assert find_socket_owners(str(fake_proc), {77}) == (1,)


def test_a_process_that_may_not_be_looked_at_is_passed_over(fake_proc: Path) -> None:
    (fake_proc / "10" / "fd").rename(fake_proc / "10" / "hidden")
    assert find_socket_owners(str(fake_proc), {77}) == (11, 12)


def test_sockets_of_this_process() -> None:
    with socket.socket() as opened:
        assert os.fstat(opened.fileno()).st_ino in process_sockets("/proc", os.getpid())
