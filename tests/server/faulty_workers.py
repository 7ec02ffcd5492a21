"""Runs ``lbdns serve`` with workers that hang or die while preparing a configuration, or that hang later.

The TTL of the first pool selects the fault. Run this module with the arguments of ``lbdns``. Only worker 0 is faulty.
The first worker 0 whose member gandalf is drained never returns to its event loop.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Final

from lbdns.answering.answer_table import AnswerTable
from lbdns.cli import main
from lbdns.model.overrides import Overrides
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.workers import worker, worker_pool

# TTLs, and what happens
HANGS: Final = 13  # while it prepares, as does its replacement
DIES: Final = 14  # the same
HANGS_ONCE: Final = 15  # while it prepares; its replacement does not
DIES_BEFORE_COMMIT: Final = 16  # after all have prepared
HANGS_BEFORE_COMMIT: Final = 17  # the same

PATIENCE: Final = 8.0  # s, instead of half a minute; a healthy worker of a busy machine may need some of them

_build_table = worker._build_table
_override = LocalAnswerer.override
_prepare = worker_pool.WorkerPool.prepare


def build_faulty_table(farm: bytes) -> AnswerTable:
    ttl = pickle.loads(farm).pools[0].config.ttl
    if Path("/proc/self/comm").read_text() == "lbdns-worker-0\n":
        if ttl == HANGS:
            time.sleep(3600)
        if ttl == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if ttl == HANGS_ONCE and not (flag := Path(os.environ["HANG_FLAG"])).exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
    return _build_table(farm)


def override(answerer: LocalAnswerer, overrides: Overrides) -> None:
    """Loop endlessly in the first worker 0 in which a member is drained."""
    _override(answerer, overrides)
    if overrides.items and Path("/proc/self/comm").read_text() == "lbdns-worker-0\n":
        flag = Path(os.environ["HANG_FLAG"])
        if not flag.exists():
            flag.touch()
            while True:
                pass


async def prepare(pool: worker_pool.WorkerPool, new: AnsweringConfiguration) -> PreparedChange:
    change = await _prepare(pool, new)
    ttl = new.farm.pools[0].config.ttl
    if ttl in (DIES_BEFORE_COMMIT, HANGS_BEFORE_COMMIT):
        os.kill(pool._workers[0].pid, signal.SIGKILL if ttl == DIES_BEFORE_COMMIT else signal.SIGSTOP)
    return change


if __name__ == "__main__":
    worker_pool.PREPARE_PATIENCE = worker_pool.SWITCH_PATIENCE = PATIENCE  # type: ignore[misc]
    worker._build_table = build_faulty_table
    LocalAnswerer.override = override  # type: ignore[assignment, method-assign]
    worker_pool.WorkerPool.prepare = prepare  # type: ignore[assignment, method-assign]
    sys.argv[0] = "lbdns"
    main()
