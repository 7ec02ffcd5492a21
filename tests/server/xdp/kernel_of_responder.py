"""Fills the tables of the XDP program from a responder, and runs the program on queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from lbdns.answering.message_writer import EMPTY_BODY, Variant, precompiled_variant, truncated
from lbdns.answering.query_shapes import QUERY_PARAMETERS
from lbdns.answering.responder import Responder
from lbdns.server.xdp.kernel_answers import KernelAnswers, TableSizes
from lbdns.server.xdp.kernel_plan import KernelPlan
from lbdns.server.xdp.table_layouts import KINDS, LimitRules
from tests.server.xdp.packets import PORT, SERVER_MAC, SERVERS, Datagram

PASS: Final = 2
DROP: Final = 1
TX: Final = 3
TEST_INTERFACE: Final = 1  # the kernel runs tests as if packets came from the loopback interface
VLAN: Final = 7
SMALL: Final = TableSizes(questions=4096, variants=4096, plans=16, order_words=4096, counters=4096)
UNLIMITED: Final = LimitRules(0, 2, 24, 56)
PAYLOAD: Final = 1232


def truncated_variants() -> list[Variant]:
    return [
        precompiled_variant(truncated(EMPTY_BODY), *QUERY_PARAMETERS[kind], False, PAYLOAD) for kind in range(KINDS)
    ]


@contextmanager
def kernel(rules: LimitRules = UNLIMITED, sizes: TableSizes = SMALL) -> Iterator[KernelAnswers]:
    """Load a program that answers on the server's addresses, with and without a VLAN tag, for the next minute."""
    with closing(KernelAnswers(sizes, rules, truncated_variants())) as answers:
        for host in SERVERS.values():
            for vlan in (0, VLAN):
                answers.publish_address(host, PORT, TEST_INTERFACE, SERVER_MAC, vlan)
        answers.renew(60.0)
        yield answers


def publish(answers: KernelAnswers, responder: Responder, plan: Sequence[int]) -> dict[bytes, KernelPlan]:
    """Publish everything that a responder has precompiled; all pools follow ``plan``. Return the plans by question."""
    plans: dict[int, KernelPlan] = {}
    by_question = {}
    for key, entry in responder.table.entries.items():
        kernel_plan = None
        if entry.cursor:
            if entry.cursor.number not in plans:
                plans[entry.cursor.number] = answers.add_plan(len(entry.bodies))
                plans[entry.cursor.number].publish(plan, 0)
            kernel_plan = by_question[key] = plans[entry.cursor.number]
        for kind, variants in enumerate(entry.variants[:KINDS]):
            if variants:
                answers.publish_question(key, kind, variants, kernel_plan)
    return by_question


def run(answers: KernelAnswers, query: Datagram) -> tuple[int, bytes]:
    """Run the program on one frame, and return its verdict and the frame that it has left."""
    verdict, frame, _ = answers.program.run(query.frame())
    return verdict, frame
