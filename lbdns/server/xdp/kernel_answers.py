"""The answers, plans and addresses of one configuration in the kernel: the tables of the XDP program.

For a new configuration, end the lease, call ``clear``, and fill the tables again. A process that takes over has tables
of its own, and replaces the program of each link in one step. All methods must be called from one thread. After
loading, only ``attach`` and ``take_link`` need a capability.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Final

from lbdns.server.xdp import program_link, table_layouts
from lbdns.server.xdp.kernel_errors import TablesFullError
from lbdns.server.xdp.kernel_plan import KernelPlan, OrderRegions
from lbdns.server.xdp.loaded_program import LoadedProgram
from lbdns.server.xdp.program_link import ProgramLink
from lbdns.server.xdp.table_layouts import FIRST_COUNTER, KINDS, NO_PLAN, TOTALS, VARIANT, LimitRules, Network, Question

_POSSIBLE: Final = Path("/sys/devices/system/cpu/possible")
_FIRST: Final = (0).to_bytes(4, "little")  # the key of the only entry

Variant = tuple[bytes, bytes]  # head and tail, as the answer table precompiles them


@dataclass(frozen=True)
class TableSizes:
    """The number of entries in each table. A variant uses 512 bytes, a counter 8 bytes for each CPU."""

    questions: int = 65_536
    variants: int = 65_536
    plans: int = 4_096
    order_words: int = 1_048_576
    counters: int = 65_536


class KernelAnswers:
    """Owns a loaded program and its tables, from the constructor to ``close``."""

    def __init__(
        self, sizes: TableSizes, rules: LimitRules, truncated: Sequence[Variant],
        *, ttl: int = 64, hop_limit: int = 64, dont_fragment: bool = True,
    ) -> None:  # fmt: skip
        """Load the program. ``truncated`` contains, by kind, the responses that make clients retry over TCP.

        ``ttl``, ``hop_limit`` and ``dont_fragment`` are those of the sockets' packets. Raises KernelError.
        """
        self._cpus = possible_cpus()
        self._sizes = sizes
        self.program = LoadedProgram({
            "questions": sizes.questions,
            "variants": sizes.variants,
            "plans": sizes.plans,
            "orders": sizes.order_words,
            "positions": sizes.plans,
            "counters": sizes.counters * self._cpus,
        })  # fmt: skip
        try:
            self._variants = self.program.view("variants")
            self._counters = self.program.view("counters", "Q")
            self._plans = self.program.view("plans", "Q")
            self._configuration = self.program.view("configuration_table")
            self._orders = self.program.view("orders", "Q")
            self._questions: dict[bytes, Question] = {}
            self._exempt: Sequence[Network] = ()
            self._configure = partial(
                table_layouts.configuration_value, seed=secrets.randbits(64), counters=sizes.counters,
                truncated=range(1, 1 + KINDS), ttl=ttl, hop_limit=hop_limit, dont_fragment=dont_fragment,
            )  # fmt: skip
            self._begin()
            self.set_rules(rules, truncated)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Use all room in the tables, except that of the truncated responses."""
        self._regions = OrderRegions(self._orders)
        self._variants_used, self._plans_used, self._counters_used = 1 + KINDS, 0, FIRST_COUNTER

    def set_rules(self, rules: LimitRules, truncated: Sequence[Variant]) -> None:
        """Replace the rate limit and the truncated responses, and end the lease. Raises KernelError."""
        self._write_variants(1, truncated)
        self.program.put("configuration_table", _FIRST, self._configure(rules))
        for network in self._exempt:
            self.program.remove("exempt_networks", table_layouts.network_key(network))
        for network in rules.exempt:
            self.program.put("exempt_networks", table_layouts.network_key(network), _FIRST)
        self._exempt = rules.exempt

    def clear(self) -> None:
        """Withdraw all questions and plans, and count from 0 again, except the totals. The lease must have ended.

        Plans that ``add_plan`` has returned must not be used any more.
        """
        for key in [*self._questions]:
            self.withdraw_question(key)
        for number in range(self._plans_used):
            self._plans[number] = 0
        for begin in range(0, self._cpus * self._sizes.counters, self._sizes.counters):
            used = self._counters[begin + FIRST_COUNTER : begin + self._counters_used]
            used[:] = memoryview(bytes(8 * len(used))).cast("Q")
        self._begin()

    def publish_address(self, host: str, port: int, interface: int, mac: bytes, vlan: int = 0) -> None:
        """Answer queries that reach an interface with this address, port, hardware address, and VLAN tag (0: none).

        With a VLAN, ``interface`` is the one that the tagged packets reach. Raises TablesFullError.
        """
        key = table_layouts.address_key(host, port, interface, vlan)
        self.program.put("addresses", key, table_layouts.address_value(mac))

    def withdraw_address(self, host: str, port: int, interface: int, vlan: int = 0) -> None:
        """Leave queries to this address to the sockets."""
        self.program.remove("addresses", table_layouts.address_key(host, port, interface, vlan))

    def add_plan(self, members: int) -> KernelPlan:
        """Return a plan for a pool with this number of members. Until it is published, queries go to the sockets.

        Raises TablesFullError.
        """
        if self._plans_used == self._sizes.plans:
            raise TablesFullError("the table plans of the XDP program is full")
        first_counter = self._take_counters(members)
        self._plans_used += 1
        return KernelPlan(self._plans_used - 1, members, first_counter, self._plans, self._regions, self._count)

    def publish_question(self, key: bytes, kind: int, variants: Sequence[Variant], plan: KernelPlan | None) -> None:
        """Answer a question with responses of one kind: one response per member of ``plan``, or a single one.

        ``key`` contains the question's bytes in lower case. Further calls for the same question add further kinds.
        Raises ValueError if the program cannot send such responses, and TablesFullError; then nothing changes.
        """
        packed = table_layouts.question_key(key)
        if len(variants) != (plan.members if plan else 1) or not 0 <= kind < KINDS:
            raise ValueError("a question needs one response of a known kind per member")
        used = self._variants_used, self._counters_used
        try:
            question = self._questions.get(key) or self._new_question(plan)
            indexes = list(question.variants)
            indexes[kind] = self._store_variants(variants)
            question = replace(question, variants=tuple(indexes))
            self.program.put("questions", packed, question.packed())
        except BaseException:
            self._variants_used, self._counters_used = used
            raise
        self._questions[key] = question

    def _new_question(self, plan: KernelPlan | None) -> Question:
        number, members, first = (plan.number, plan.members, plan.first_counter) if plan else (NO_PLAN, 1, 0)
        return Question((0,) * KINDS, number, members, self._take_counters(1), first)

    def withdraw_question(self, key: bytes) -> None:
        """Leave a question to the sockets. Its room in the tables is used again only after ``clear``."""
        if self._questions.pop(key, None):
            self.program.remove("questions", table_layouts.question_key(key))

    def question_counts(self) -> dict[bytes, int]:
        """Return how many times each question has been answered so far."""
        counts = self._count(0, self._counters_used)
        return {key: counts[question.counter] for key, question in self._questions.items()}

    def totals(self) -> dict[str, int]:
        """Return how many packets have been answered or not so far, by reason."""
        return dict(zip(TOTALS, self._count(0, len(TOTALS)), strict=True))

    def answered_by_cpu(self) -> list[int]:
        """Return how many queries each CPU has answered so far."""
        step = self._sizes.counters
        return [self._counters[cpu * step + TOTALS.index("answered")] for cpu in range(self._cpus)]

    def renew(self, seconds: float) -> None:
        """Let the program answer for this time. Before the first call, and after it has passed, nothing is answered."""
        lease = monotonic_ns() + int(seconds * 1e9)
        self._configuration[: table_layouts.LEASE.size] = table_layouts.LEASE.pack(lease)

    def attach(self, interface: int, *, generic: bool | None = None) -> ProgramLink:
        """Attach the program to an interface, as ``program_link.attach`` does."""
        return program_link.attach(self.program.fd, interface, generic=generic)

    def take_link(self, link: ProgramLink) -> None:
        """Replace the program of a link by this one, in one step. Raises KernelError."""
        link.replace(self.program.fd)

    def close(self) -> None:
        """Close the tables. Links remain, and the program then answers until its lease ends."""
        self.program.close()

    def _store_variants(self, variants: Sequence[Variant]) -> int:
        """Store the responses one after another, and return the index of the first."""
        first = self._variants_used
        if first + len(variants) > self._sizes.variants:
            raise TablesFullError("the table variants of the XDP program is full")
        self._write_variants(first, variants)
        self._variants_used += len(variants)
        return first

    def _write_variants(self, first: int, variants: Sequence[Variant]) -> None:
        content = b"".join(table_layouts.variant_value(*variant) for variant in variants)
        self._variants[first * VARIANT : first * VARIANT + len(content)] = content

    def _take_counters(self, count: int) -> int:
        first = self._counters_used
        if first + count > self._sizes.counters:
            raise TablesFullError("the table counters of the XDP program is full")
        self._counters_used += count
        return first

    def _count(self, first: int, number: int) -> list[int]:
        """Return the values of counters, summed over the CPUs that have answered anything."""
        sums = [0] * number
        for begin in range(0, self._cpus * self._sizes.counters, self._sizes.counters):
            if any(self._counters[begin : begin + len(TOTALS)]):
                values = self._counters[begin + first : begin + first + number].tolist()
                sums = [a + b for a, b in zip(sums, values, strict=True)]
        return sums


def possible_cpus() -> int:
    """Return one more than the highest number that a CPU of this machine can have."""
    try:
        return int(_POSSIBLE.read_text().strip().replace(",", "-").rpartition("-")[2]) + 1
    except (OSError, ValueError):
        return os.cpu_count() or 1
