"""The DNS service: the listening sockets and the answerer that uses them.

The sockets and the answerer always change together. Queries are answered by this process itself (``LocalAnswerer``) or
by several worker processes (``WorkerPool``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lbdns.answering.answer_table import AnswerTable
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.model.farm import Farm, Pool
from lbdns.model.other_answers import OtherAnswers
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
    """The farm that determines the answers, and the sockets of each answering process."""

    farm: Farm
    table: AnswerTable  # for this process; workers build their own from the farm
    secrets: tuple[bytes, ...]  # for DNS cookies, the same in all processes; the first makes new cookies
    sockets: Sequence[NumberedSockets]  # one mapping for each process


class Answerer(Protocol):
    """Answers queries according to a configuration, a snapshot and overrides, and counts the answers."""

    #: Follows the states of members, and holds the newest snapshot and the overrides in force. It plans answers only if
    #: this process answers queries.
    planner: Planner
    workers: int  # processes that answer

    @property
    def restarts(self) -> int:
        """Return the number of answering processes that have been replaced so far."""

    @property
    def fault(self) -> str:
        """Return the reason why a process is not answering queries, or an empty string if all processes are
        answering."""

    async def prepare(self, new: AnsweringConfiguration) -> PreparedChange:
        """Prepare every answering process for ``new``, and return the change that applies ``new``.

        No query is lost: if ``new`` removes a socket, each process still answers the queries that it has read from that
        socket. The caller still owns the sockets, and must keep them open until the change has been completed or rolled
        back. Raises LbdnsError if a process cannot prepare.
        """

    def deliver(self, snapshot: Snapshot) -> None:
        """Use ``snapshot`` for all further planning."""

    def override(self, overrides: Overrides) -> None:
        """Replace all overrides in force."""

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        """Return one answering process's explanation of the next answer for the name ``owner`` in ``pool``.

        Raises LbdnsError if no process replies in time, or if a reload is in progress.
        """

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        """Return the next answers of one answering process for ``pool``, keyed by policy (see ``Planner.upcoming``).

        If other processes answer queries, the result is at most a few seconds old; it is empty until a process has
        replied.
        """

    @property
    def queries(self) -> int:
        """Return the number of queries read so far. This call is cheaper than ``counters``."""

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        """Return the number of queries answered so far, keyed by (zone, type, transport, RCODE)."""

    def count_others(self, answers: OtherAnswers) -> None:
        """Count the answers of another DNS server in all further planning."""

    def answers_by_policy(self) -> Mapping[tuple[str, str, str], int]:
        """Return how many times each policy has selected each member, keyed by pool, policy and full name.

        Several processes may report their selections up to a second late. The totals include processes that have ended.
        """

    def answers(self, pool: str) -> Counter[str]:
        """Return how many times each member of a pool has been selected, keyed by full name.

        This call is cheaper than ``counters``.
        """

    def shadow_counters(self) -> AnswerCounters:
        """Return the counters of shadow policies. This call is cheaper than ``counters``."""

    def counters(self) -> AnswerCounters:
        """Return all counters, which never decrease. Other processes send their counters a few times a second."""

    async def refresh(self) -> None:
        """Fetch the current counters of other processes, so that the other methods return up-to-date values."""

    async def stop(self) -> None:
        """Answer the queries that have been read, and stop.

        All counters are final afterwards. A second call has no effect.
        """


class DnsService:
    """Owns the sockets, the answerer and the secrets for DNS cookies."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer
        self.sockets = SocketGroups()
        #: Secrets for cookies if the configuration names no file of secrets. A successor inherits them.
        self.own_secrets: tuple[bytes, ...] = (new_cookie_secret(),)

    def secrets(self, configuration: ServeConfiguration) -> tuple[bytes, ...]:
        """Return the secrets for DNS cookies; new cookies are made with the first secret."""
        return configuration.secrets or self.own_secrets

    async def start(self, configuration: ServeConfiguration, inherited: Sequence[InheritedSocket] = ()) -> None:
        """Start answering queries.

        This includes queries that are waiting in ``inherited`` sockets, even if the configuration does not contain
        them.

        A second call, without ``inherited``, answers the waiting queries and then closes the sockets that the
        configuration does not contain. Raises LbdnsError.
        """
        await commit_all([await self.prepare(configuration, inherited)])

    async def prepare(self, new: ServeConfiguration, inherited: Sequence[InheritedSocket] = ()) -> PreparedChange:
        """Open the missing sockets, and make every answering process prepare ``new``. Raises LbdnsError."""
        # Close nothing before everything is open: without root, port 53 could not be opened again
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
        """Answer the queries that have been read, and then close the sockets."""
        await self.answerer.stop()
        self.sockets.close()
