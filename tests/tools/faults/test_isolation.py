"""Tests of the namespaces in which faults are injected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.needs import needs

PROGRAM = """\
import os, socket, sys
from lbdns_tools.faults import isolation
inside = isolation.enter("inside_program", sys.argv[1:])
print(inside, isolation.is_inside(), sys.argv[1:], [name for _, name in socket.if_nameindex()])
with socket.create_server(("127.0.0.1", 53)) as sock:
    socket.create_connection(("127.0.0.1", 53)).close()
"""


@needs(root=True, namespaces=True)
def test_inside_there_is_only_a_loopback_interface_that_is_up(tmp_path: Path) -> None:
    (tmp_path / "inside_program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "inside_program", "a", "b"],
        capture_output=True, text=True, check=False, timeout=60, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["True True ['a', 'b'] ['lo']"]
