"""Makes the kernel answer common queries on the network interfaces that ``[server] xdp`` names.

Whatever fails is logged, and the server's sockets answer instead. The program in the kernel answers only while this
process renews its lease, and it is detached when this process ends, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.message_writer import EMPTY_BODY, Variant, precompiled_variant, truncated
from lbdns.answering.query_shapes import FIRST_COOKIE_KIND, QUERY_PARAMETERS
from lbdns.config import Config
from lbdns.counting.response_times import BOUNDS
from lbdns.events.event_log import EventLog
from lbdns.server.xdp.interface_checks import check_workers, interface_number
from lbdns.server.xdp.kernel_answers import KernelAnswers, TableSizes
from lbdns.server.xdp.kernel_errors import KernelError
from lbdns.server.xdp.kernel_plan import KernelPlan
from lbdns.server.xdp.kernel_publisher import KernelPublisher
from lbdns.server.xdp.own_addresses import PublishedAddress, published_addresses, read_interfaces
from lbdns.server.xdp.program_link import ProgramLink
from lbdns.server.xdp.table_layouts import LimitRules

log = logging.getLogger("lbdns.xdp")

#: s for which the kernel answers from the last plans of a process that hangs, like a thread of the native plane
LEASE: Final = 3.0
COUNTING: Final = 0.05  # s between the times at which selections are counted
RENEWAL: Final = 10  # countings between renewals of the lease
LOOKING: Final = 20  # countings between looks at the interfaces
LOGGED: Final = 20  # lines at the end of the verifier's log, which name the fault
#: Totals of the program that are responses, or queries that are dropped on purpose
_QUERIES: Final = ("answered", "rate_limit_dropped", "rate_limit_cut")

#: Loads the program. Raises KernelError
Load = Callable[[LimitRules, Sequence[Variant]], KernelAnswers]


def load_program(rules: LimitRules, cut: Sequence[Variant]) -> KernelAnswers:
    return KernelAnswers(TableSizes(), rules, cut)


class KernelAnswering:
    """The program in the kernel, its links to interfaces, and its tables. Without a program, every method does nothing.

    The caller must call ``open`` while the process may load programs, then ``begin`` for each new answer table, and
    ``end`` before the table's answers change. Only the thread that runs the event loop may use an instance.
    """

    def __init__(self, config: Config, events: EventLog, load: Load = load_program) -> None:
        self._names, self._path = config.server.xdp, config.path
        self._events, self._load = events, load
        self._faults = dict.fromkeys(self._names, "")  # why the kernel does not answer on an interface, by name
        self.links: dict[str, ProgramLink] = {}  # of the interfaces on which the kernel answers, by name
        self._program: KernelAnswers | None = None
        self._publisher: KernelPublisher[KernelPlan] | None = None
        self._table: AnswerTable | None = None  # whose answers are published
        self._published: frozenset[PublishedAddress] = frozenset()
        self._totals = Counter[str]()  # the last that were read
        self._timer: asyncio.TimerHandle | None = None
        self._beats = 0

    def open(self, config: Config, inherited: Mapping[str, int]) -> None:
        """Load the program, and attach it to the interfaces.

        ``inherited`` contains the descriptors of a running server's links, by name. This object owns them: each link
        either changes over to this program in one step, or is closed.
        """
        descriptors = dict(inherited)
        try:
            if self._names:
                check_workers(config.server.workers)
                self._program = self._load(limit_rules(config), cut_variants(config))
        except KernelError as error:
            for name in self._names:
                self._miss(name, error)
            self._log_details(error)
        if self._program:
            for name in self._names:
                self._attach(name, self._program, descriptors.pop(name, None))
        for descriptor in descriptors.values():
            os.close(descriptor)
        if self._program and not self.links:
            self._program.close()
            self._program = None

    def _attach(self, name: str, program: KernelAnswers, inherited: int | None) -> None:
        try:
            number = interface_number(name)
            if inherited is None:
                link = program.attach(number)
            else:
                link = ProgramLink(inherited, number)
                program.take_link(link)
        except KernelError as error:
            if inherited is not None:
                os.close(inherited)
            self._miss(name, error)
            self._log_details(error)
        else:
            self.links[name] = link
            self._events.record("server", f"xdp: the kernel answers common queries on {name}", logger=log.name)

    def _miss(self, name: str, error: object) -> None:
        self._faults[name] = str(error)
        text = f"{self._path}: [server] xdp: {name}: {error}; the sockets answer instead"
        self._events.record("server", text, level=logging.WARNING, logger=log.name)

    def _log_details(self, error: KernelError) -> None:
        for line in error.log.splitlines()[-LOGGED:]:
            log.warning("xdp: the kernel's verifier: %s", line)

    def take_back(self) -> None:
        """Let the links use this program again, after another process has failed to take over."""
        with self._failing():
            for link in self.links.values():
                assert self._program, "links have a program"
                self._program.take_link(link)

    def begin(self, table: AnswerTable) -> None:
        """Let the kernel answer from ``table`` and its plans: what has been precompiled, and what will be."""
        if self._program is None:
            return
        with self._failing():
            config = table.farm.config
            self._program.set_rules(limit_rules(config), cut_variants(config))
            if self._publisher is None:
                self._publisher = KernelPublisher(self._program, self._fail)
            self._publisher.use(table.farm, table.cursors)
            self._table = table
            table.follow_with(self._publisher)
            self._beats = 0
            self._beat()

    def end(self) -> None:
        """Stop the kernel from answering, and count its answers in the table that it has answered from."""
        if self._timer:
            self._timer.cancel()
        if self._table and self._publisher:
            self._publisher.forget()
        if self._table:
            self._table.follow_with(None)
        self._table = None

    def close(self) -> None:
        """Detach the program from all interfaces that no other process has taken over. The counters remain."""
        self.end()
        self._read_totals()
        for link in self.links.values():
            link.close()
        self.links.clear()
        if self._program:
            self._program.close()
            self._program = None

    def _beat(self) -> None:
        """Do at intervals what must be done as long as the event loop runs."""
        self._timer = asyncio.get_running_loop().call_later(COUNTING, self._beat)
        with self._failing():
            if self._beats % LOOKING == 0:
                self._look()
            if self._program and self._beats % RENEWAL == 0:
                self._program.renew(LEASE)
            if self._publisher:
                self._publisher.count_selections()
        self._beats += 1

    def _look(self) -> None:
        """Publish the present addresses of the interfaces, and give up those that are gone."""
        if self._program is None or self._table is None:
            return
        for name, link in [*self.links.items()]:
            if not link.is_attached():
                del self.links[name]
                link.close()
                self._miss(name, "the interface is gone, or the program was detached; restart the server to attach it")
        wanted = published_addresses(self._table.farm.config.server.listen, read_interfaces(self.links))
        for each in self._published - wanted:
            self._program.withdraw_address(each.address, each.port, each.interface)
        for each in wanted - self._published:
            self._program.publish_address(each.address, each.port, each.interface, each.mac)
        self._published = wanted

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Detach the program if the kernel refuses a change of its tables."""
        try:
            yield
        except (KernelError, OSError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher:
            publisher.leave()
        for name in [*self.links]:
            self._miss(name, f"the tables cannot be changed: {error}; restart the server to attach the program again")
        self.close()

    @property
    def document(self) -> Mapping[str, Any] | None:
        """Return the state for the status document, or None if the configuration names no interface."""
        if not self._names:
            return None
        interfaces = [
            {"name": name, "answers": name in self.links, "fault": fault} for name, fault in self._faults.items()
        ]
        return {"answers": self.counters()["kernel_answers"], "interfaces": interfaces}

    def counters(self) -> Counter[str]:
        """Return the counters since the start, keyed by the names that ``AnswerCounters`` uses."""
        totals = self._read_totals()
        limited = {name: totals[name] for name in ("rate_limit_dropped", "rate_limit_cut")}
        return Counter(kernel_answers=totals["answered"], **limited)

    def times(self) -> tuple[Sequence[int], float]:
        """Return a histogram of response times (see ``ResponseTimes``): the kernel answers within a microsecond."""
        totals = self._read_totals()
        return (sum(totals[name] for name in _QUERIES), *(0,) * len(BOUNDS)), 0.0

    def _read_totals(self) -> Counter[str]:
        if self._program:
            self._totals = Counter(self._program.totals())
        return self._totals


def limit_rules(config: Config) -> LimitRules:
    """Return the rate limit for the program. It applies to the kernel's answers alone."""
    rules = config.rate_limit
    return LimitRules(rules.responses_per_second, rules.slip, rules.ipv4_prefix, rules.ipv6_prefix, rules.exempt)


def cut_variants(config: Config) -> list[Variant]:
    """Return the truncated response for each kind of query."""
    return [
        precompiled_variant(truncated(EMPTY_BODY), *QUERY_PARAMETERS[kind], False, config.server.payload)
        for kind in range(FIRST_COOKIE_KIND)
    ]
