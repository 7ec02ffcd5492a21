"""Operators' orders that all servers of a farm share: each order's record in a bucket, and the merge of records. Pure.

A bucket holds one record per place (slot, member, pool). The record of an ended override stays, with ``override`` None:
a deletion in the bucket is not signed, so it proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lbdns.model.overrides import SLOTS, Override, Overrides, read_override

Place = tuple[str, str, str]  # slot, member, pool
GREATEST_VERSION: Final = 2**53
#: Revisions of orders that the bucket does not hold. A bucket's own revisions begin at 1.
LOST: Final = 0  # other servers may know the order
UNSENT: Final = -1  # only this server knows the order
_PLAIN: Final = re.compile(rb"[a-z0-9_-]")
_EMPTY: Final = "="  # cannot be confused with an escaped byte, which has two digits after the sign


def bucket_key(place: Place) -> str:
    """Return the key of ``place`` in the bucket, such as ``drain.web1=2Eexample.=``.

    Bytes other than lower-case letters, digits, ``_`` and ``-`` become ``=`` and two hex digits. The last part is the
    pool; ``=`` stands for all pools.
    """
    return ".".join(_escape(part) for part in place)


def _escape(text: str) -> str:
    data = text.encode()
    each = (data[i : i + 1] for i in range(len(data)))
    return "".join(c.decode() if _PLAIN.match(c) else f"={c[0]:02X}" for c in each) or _EMPTY


@dataclass(frozen=True, slots=True)
class SharedOrder:
    """The newest order for one place.

    ``version`` counts the orders for the place. It is signed with the record, so a bus that stores an older record
    again cannot bring it back into force. ``revision`` is the bucket's, or ``LOST`` or ``UNSENT``.
    """

    place: Place
    version: int
    server: str  # the name of the server that was given the order
    by: str  # the user who gave the order
    override: Override | None  # None: the override has been ended
    revision: int = LOST

    @property
    def is_pending(self) -> bool:
        """Return whether the order still has to be sent to the bucket."""
        return self.revision <= LOST

    def body(self) -> dict[str, Any]:
        """Return the record as plain data, without the revision, for a signed message."""
        return {
            "place": list(self.place),
            "version": self.version,
            "server": self.server,
            "by": self.by,
            "override": None if self.override is None else self.override.document(),
        }

    def document(self) -> dict[str, Any]:
        """Return the order as plain data, with the revision, for the override file and a successor process."""
        return {**self.body(), "revision": self.revision}


def read_order(body: Mapping[Any, Any], key: str, revision: int = LOST) -> SharedOrder:
    """Convert the result of ``SharedOrder.body``, found in the bucket under ``key``, back into an order.

    Raises ValueError if the record is invalid or belongs under another key.
    """
    try:
        slot, member, pool = place = tuple(body["place"])
        version, server, by, document = body["version"], body["server"], body["by"], body["override"]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a valid shared order: {error!r}") from None
    if not all(isinstance(text, str) for text in (*place, server, by)) or not member or not server:
        raise ValueError("not a valid shared order: place, server and by must be texts")
    if slot not in SLOTS.values() or type(version) is not int or not 0 < version <= GREATEST_VERSION:
        raise ValueError("not a valid shared order: the slot is unknown or the version is out of range")
    override = None if document is None else read_override(document)
    if override is not None and override.place != (slot, member, pool):
        raise ValueError("not a valid shared order: the override is for another place")
    try:
        expected = bucket_key((slot, member, pool))
    except UnicodeEncodeError:
        raise ValueError("not a valid shared order: place must be valid Unicode") from None
    if expected != key:
        raise ValueError(f"not a valid shared order: the record of {expected} is stored under {key}")
    return SharedOrder((slot, member, pool), version, server, by, override, revision)


def read_order_document(value: Any) -> SharedOrder:
    """Convert the result of ``SharedOrder.document`` back into an order. Raises ValueError if ``value`` is invalid."""
    try:
        revision, place = value["revision"], tuple(value["place"])
        key = bucket_key(place) if len(place) == 3 and all(isinstance(part, str) for part in place) else ""
    except (TypeError, KeyError, UnicodeEncodeError) as error:
        raise ValueError(f"not a valid shared order: {error!r}") from None
    if type(revision) is not int or revision < UNSENT:
        raise ValueError("not a valid shared order: the revision is not valid")
    return read_order(value, key, revision)


@dataclass(frozen=True, slots=True)
class SharedOrders:
    """The newest known order for each place. The object is immutable: every change returns a new object."""

    orders: Mapping[Place, SharedOrder] = field(default_factory=dict)

    def give(self, place: Place, override: Override | None, by: str, server: str) -> SharedOrders:
        """Return a copy with a new order for ``place``, which is pending until ``stored`` is called.

        A new order over an unsent one keeps its version, so that it still loses to an order that another server gave
        meanwhile.
        """
        old = self.orders.get(place)
        version = 1 if old is None else old.version + (old.revision != UNSENT)
        return SharedOrders({**self.orders, place: SharedOrder(place, version, server, by, override, UNSENT)})

    def stored(self, sent: SharedOrder, revision: int) -> SharedOrders:
        """Return a copy in which the bucket holds ``sent`` at ``revision``, unless another order has replaced it.

        A pending order that was given meanwhile gets the version after that of ``sent``. The caller must call this
        method instead of ``receive`` if the bucket reports ``sent`` before it confirms it.
        """
        present = self.orders.get(sent.place)
        if present is None or not present.is_pending:
            return self
        if present == sent:
            now = replace(sent, revision=revision)
        else:
            now = replace(present, version=max(present.version, sent.version + 1))
        return SharedOrders({**self.orders, sent.place: now})

    def receive(self, found: SharedOrder) -> tuple[SharedOrders, SharedOrder | None]:
        """Return a copy with an order from the bucket, and the pending order that loses to it, or None.

        The order with the greater version counts. Among equal versions, an order in the bucket counts before a pending
        one, and the greater revision before the lesser one.
        """
        old = self.orders.get(found.place)
        if old and (old.version, old.revision) >= (found.version, found.revision):
            return self, None
        is_same = old is not None and replace(old, revision=found.revision) == found
        lost = old if old and old.is_pending and not is_same else None
        return SharedOrders({**self.orders, found.place: found}), lost

    def reread(self, found: Iterable[SharedOrder]) -> tuple[SharedOrders, list[SharedOrder]]:
        """Return a copy after a complete read of the bucket, and the orders that lose to those in ``found``.

        Orders that the bucket does not hold become pending, so a nats-server that has lost its store receives them
        again. Revisions from before the read do not count: a new store begins at 1.
        """
        state = SharedOrders({p: replace(o, revision=min(o.revision, LOST)) for p, o in self.orders.items()})
        all_lost = []
        for order in found:
            state, lost = state.receive(order)
            all_lost += [lost] if lost else []
        return state, all_lost

    def missing(self, place: Place) -> SharedOrders:
        """Return a copy in which the order for ``place`` is pending, because the bucket does not hold it any more."""
        old = self.orders[place]
        return SharedOrders({**self.orders, place: replace(old, revision=min(old.revision, LOST))})

    @property
    def pending(self) -> list[SharedOrder]:
        return [order for order in self.orders.values() if order.is_pending]

    def in_force(self, now: float) -> Overrides:
        """Return the overrides in force at ``now`` (Unix seconds)."""
        found = (order.override for order in self.orders.values())
        return Overrides(tuple(each for each in found if each is not None and each.until > now))


NO_ORDERS: Final = SharedOrders()
