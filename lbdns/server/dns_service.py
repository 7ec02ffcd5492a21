"""The DNS service: listening sockets and the answerer that answers on them, which change together.

The answerer is this process itself (``LocalAnswerer``) or several processes (``WorkerPool``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lbdns.answering.answer_table import AnswerTable
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.model.farm import Farm, Pool
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.planner import Planner
from lbdns.process.apply_configuration import PreparedChange, commit_all
from lbdns.secrets.key_files import new_cookie_secret
from lbdns.server.server_configuration import ServeConfiguration
from lbdns.sockets.dns_sockets import NumberedSockets, SocketGroups
from lbdns.sockets.inherited_sockets import InheritedSocket


@dataclass(frozen=True, slots=True)
class AnsweringConfiguration:
    """The farm to answer for, and the sockets that each process answers on."""

    farm: Farm
    table: AnswerTable  # for this process; workers build their own from the farm
    secrets: tuple[bytes, ...]  # for DNS cookies, the same in all processes; the first makes new cookies
    sockets: Sequence[NumberedSockets]  # one mapping for each process


class Answerer(Protocol):
    """Answers queries from a configuration, a snapshot and overrides, and counts what it has answered."""

    #: Follows the states of members, and has the newest snapshot and the overrides in force. It plans answers only if
    #: this process gives them.
    planner: Planner
    workers: int  # processes that answer

    @property
    def restarts(self) -> int:
        """The number of processes that had to be replaced so far."""

    async def prepare(self, new: AnsweringConfiguration) -> PreparedChange:
        """Build all that ``new`` needs in every process, and return the change; nothing is answered from it yet.

        The change loses no query: each process answers all it has read from sockets that ``new`` lacks. The sockets
        still belong to the caller, who must keep them open until the change has finished or rolled back. Raises
        LbdnsError if a process cannot prepare.
        """

    def deliver(self, snapshot: Snapshot) -> None:
        """Plan from a new snapshot."""

    def override(self, overrides: Overrides) -> None:
        """Replace all overrides in force."""

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        """Return why ``owner`` in ``pool`` is answered as it is, according to one of the processes.

        Raises LbdnsError if no process replies in time or a reload is under way.
        """

    @property
    def queries(self) -> int:
        """Queries read so far; cheaper than ``counters``."""

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        """Return the queries so far by zone, type, transport and rcode."""

    def answers(self, pool: str) -> Counter[str]:
        """Return how often each member of a pool was selected so far, by full name; cheaper than ``counters``."""

    def shadow_counters(self) -> AnswerCounters:
        """Return the counters of shadow policies; cheaper than ``counters``."""

    def counters(self) -> AnswerCounters:
        """Return all counters; other processes report theirs a few times a second. No counter ever falls."""

    async def refresh(self) -> None:
        """Fetch the current counters of other processes, so that the methods above return them."""

    async def stop(self) -> None:
        """Answer what has been read, then stop; all counters are final then. May be called twice."""


class DnsService:
    """Sockets, answerer and cookie secrets."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer
        self.sockets = SocketGroups()
        #: For cookies, if the configuration names no file of secrets. A successor inherits them.
        self.own_secrets: tuple[bytes, ...] = (new_cookie_secret(),)

    def secrets(self, configuration: ServeConfiguration) -> tuple[bytes, ...]:
        """Return the secrets for DNS cookies; the first makes new cookies."""
        return configuration.secrets or self.own_secrets

    async def start(self, configuration: ServeConfiguration, inherited: Sequence[InheritedSocket] = ()) -> None:
        """Answer, also on ``inherited`` sockets that ``configuration`` does not ask for: queries may wait in them.

        A second call without ``inherited`` answers what waits in those, and closes them. Raises LbdnsError.
        """
        await commit_all([await self.prepare(configuration, inherited)])

    async def prepare(self, new: ServeConfiguration, inherited: Sequence[InheritedSocket] = ()) -> PreparedChange:
        """Open the sockets that are missing, and have every answering process prepare. Raises LbdnsError."""
        # Nothing is closed before everything is open: without root, port 53 would be lost
        listen, workers = new.farm.config.server.listen, self.answerer.workers
        sockets = self.sockets.prepare(listen, workers, [each for each in inherited if each.purpose == "dns"])
        wanted = AnsweringConfiguration(new.farm, new.table, self.secrets(new), sockets.dealt(workers))
        try:
            answers = await self.answerer.prepare(wanted)
        except BaseException:
            sockets.rollback()
            raise

        async def finish() -> None:
            await answers.finish()
            sockets.commit()

        async def rollback() -> None:
            await answers.rollback()
            sockets.rollback()

        return PreparedChange("answers", answers.commit, finish, rollback)

    async def stop(self) -> None:
        """Answer what has been read, then close the sockets."""
        await self.answerer.stop()
        self.sockets.close()
