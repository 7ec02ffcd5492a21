"""Tests of counting connections: tables of the kernel as text, and real sockets."""

from __future__ import annotations

import socket

from lbdns_tools.bench.established_connections import count_established, established_connections
from tests.end_to_end.process import eventually

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 4D01007F:46B2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3175471 1
   1: 4D01007F:46B2 0200007F:BBA3 01 00000000:00000000 00:00000000 00000000     0        0 3175528 1
   2: 0200007F:BBA3 4D01007F:46B2 01 00000000:00000000 00:00000000 00000000     0        0 3175527 2
   3: 4D01007F:46B2 0200007F:BBA5 06 00000000:00000000 00:00000000 00000000     0        0 0 3
   4: 4D01007F:46B2 0100007F:BBA7 01 00000000:00000000 00:00000000 00000000     0        0 3175529 1
   5: 4D01007F:46B3 0200007F:BBA9 01 00000000:00000000 00:00000000 00000000     0        0 3175530 1
"""
TABLE6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 0000000000000000FFFF00004D01007F:46B2 0000000000000000FFFF00000200007F:CE2C 01 00000000:00000000
   1: 00000000000000000000000001000000:46B2 00000000000000000000000001000000:CE2D 01 00000000:00000000
"""


def test_only_established_connections_of_the_client_count() -> None:
    assert count_established(TABLE, "127.0.1.77", 18098, "127.0.0.2") == 1
    assert count_established(TABLE, "127.0.1.77", 18098, "127.0.0.1") == 1
    assert count_established(TABLE, "127.0.1.77", 18099, "127.0.0.2") == 1
    assert count_established(TABLE, "127.0.1.78", 18098, "127.0.0.2") == 0
    assert count_established(TABLE6, "127.0.1.77", 18098, "127.0.0.2") == 1
    assert count_established("", "127.0.1.77", 18098, "127.0.0.2") == 0


def test_connections_count_before_they_are_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)):
            assert established_connections("127.0.0.1", port, "127.0.0.2") == 1
            assert established_connections("127.0.0.1", port, "127.0.0.1") == 0
        eventually(lambda: established_connections("127.0.0.1", port, "127.0.0.2") == 0, "the connection ends")
