"""What answers queries, seen from the main process: itself, or a crew of worker processes. One interface, two ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lbdns.answering.table import Table
from lbdns.farm import Farm, Pool
from lbdns.overrides import Overrides
from lbdns.server.figures import Figures
from lbdns.server.net.sockets import Numbered
from lbdns.server.plans import Planner
from lbdns.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Work:
    """A configuration to answer from, and the sockets to answer on, for each process."""

    farm: Farm
    table: Table  # of the farm, for whom answers in this process
    secrets: tuple[bytes, ...]  # of cookies, the same for all processes; the first makes them
    sockets: Sequence[Numbered]


class Answerer(Protocol):
    """``planner`` follows the states of members and tells who listens to that; it plans too if answers are given in
    this process."""

    planner: Planner

    @property
    def workers(self) -> int:
        """Processes that answer."""

    @property
    def restarts(self) -> int:
        """How often one had to be replaced."""

    async def use(self, work: Work) -> None:
        """Answer from this and on these sockets from now on, all processes; what has been read is still answered.

        Everything that can fail for a user's mistake was done before. The sockets remain the caller's.
        """

    def deliver(self, snapshot: Snapshot) -> None:
        """Make new plans from a new snapshot."""

    def override(self, overrides: Overrides) -> None:
        """Go by these orders from now on, and by no others."""

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        """Why ``owner`` of ``pool`` is answered as it is, of one of the processes. Raises LbdnsError when it can't be
        told just now."""

    @property
    def queries(self) -> int:
        """Queries read so far; cheaper than ``figures``."""

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        """Queries so far by zone, type, transport and rcode, as far as that is known just now."""

    def answers(self, pool: str) -> Counter[str]:
        """How often the members of a pool were handed out so far, by full name; cheaper than ``figures``."""

    def shadow_figures(self) -> Figures:
        """What was counted of what is tried beside the policies; cheaper than ``figures``."""

    def figures(self) -> Figures:
        """What was counted, as far as it is known just now. No count ever falls."""

    async def refresh(self) -> None:
        """Make known what was counted until now."""

    async def stop(self) -> None:
        """Answer what has been read and no more; all figures are known then. Can be called twice."""
