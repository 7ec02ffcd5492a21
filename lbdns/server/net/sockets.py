"""All sockets that DNS is answered on, as the main process keeps them: opened before anybody answers on them, dealt out
to the processes that do, and kept open, so that what waits in the socket of a process that died is not lost."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError
from lbdns.listening import bound_endpoint
from lbdns.server.net.given import Given, same_place
from lbdns.server.net.listen import WILDCARDS, make_ready, open_pair, open_tcp, open_udp, share

log = logging.getLogger("lbdns.server")

#: By number, which no other socket of this process ever has
Numbered = Mapping[int, socket.socket]
_KINDS: Final = (socket.SOCK_DGRAM, socket.SOCK_STREAM)


class Change:
    """Sockets that are open but not answered on yet: to be dealt out and kept, or dropped."""

    def __init__(self, owner: Sockets, before: Mapping[Endpoint, Numbered]) -> None:
        self._owner, self._before = owner, before
        self.after: dict[Endpoint, dict[int, socket.socket]] = {}

    def dealt(self, workers: int) -> list[dict[int, socket.socket]]:
        """Who answers on which: each worker on at least one of every address and kind, and each by somebody."""
        hands: list[dict[int, socket.socket]] = [{} for _ in range(workers)]
        for group in self.after.values():
            for kind in _KINDS:
                sockets = [(number, sock) for number, sock in group.items() if sock.type == kind]
                for turn in range(max(workers, len(sockets))):
                    number, sock = sockets[turn % len(sockets)]
                    hands[turn % workers][number] = sock
        return hands

    def keep(self) -> None:
        """From now on these are the sockets; those that are not among them are closed."""
        self._owner.replace(self.after)

    def drop(self) -> None:
        """Everything stays as it was; what was opened for this change is closed."""
        known = {number for group in self._before.values() for number in group}
        for group in self.after.values():
            for number, sock in group.items():
                if number not in known:
                    sock.close()
        self.after.clear()


class Sockets:
    """UDP and TCP sockets by the address that was asked for."""

    def __init__(self) -> None:
        self._open: dict[Endpoint, dict[int, socket.socket]] = {}
        self._numbers = itertools.count(1)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where DNS is answered, with real ports."""
        return [bound_endpoint(next(iter(group.values()))) for group in self._open.values()]

    def given(self) -> Iterator[Given]:
        """All of them, to be handed over."""
        for asked, group in self._open.items():
            for sock in group.values():
                yield Given("dns", asked, sock)

    def prepare(self, endpoints: Iterable[Endpoint], workers: int, given: Sequence[Given] = ()) -> Change:
        """What is to be had for these addresses and so many workers; nothing is closed, and nothing changes yet.

        Of the sockets ``given`` all are taken, those that nobody asked for too: queries may wait in them. Raises
        ListenError when an address can't be had, and then nothing is open that wasn't.
        """
        change = Change(self, self._open)
        wanted = tuple(dict.fromkeys(endpoints))
        try:
            for taken in given:
                here = bound_endpoint(taken.sock)
                asked = next((e for e in wanted if e == taken.asked or same_place(e, here)), taken.asked)
                change.after.setdefault(asked, {})[next(self._numbers)] = taken.sock
                if taken.sock.type == socket.SOCK_DGRAM:
                    make_ready(taken.sock)
            for endpoint in wanted:
                if endpoint in change.after:
                    self._complete(change.after[endpoint], workers)
                elif group := self._at(endpoint):
                    change.after[endpoint] = _without_surplus(group, workers)
                else:
                    change.after[endpoint] = {}
                    self._fill(change.after[endpoint], endpoint, workers)
        except ListenError as error:
            change.drop()
            ours = [here for here in self.endpoints if _overlap(here, endpoint)]
            if ours:
                what = f"{endpoint}: overlaps {ours[0]}, where this server answers now; to go over needs a restart"
                raise ListenError(what) from error
            raise
        return change

    def replace(self, after: Mapping[Endpoint, dict[int, socket.socket]]) -> None:
        before, self._open = self._open, dict(after)
        known = {number for group in before.values() for number in group}
        for group in self._open.values():
            if known.isdisjoint(group):
                log.info("answering DNS on %s", bound_endpoint(next(iter(group.values()))))
        kept = {number for group in self._open.values() for number in group}
        for group in before.values():
            for number, sock in group.items():
                if number not in kept:
                    sock.close()

    def close(self) -> None:
        self.replace({})

    def _at(self, endpoint: Endpoint) -> Numbered | None:
        """The sockets that are open there already, however the address was written."""
        for asked, group in self._open.items():
            if asked == endpoint or same_place(bound_endpoint(next(iter(group.values()))), endpoint):
                return group
        return None

    def _fill(self, group: dict[int, socket.socket], endpoint: Endpoint, workers: int) -> None:
        for sock in open_pair(endpoint):
            group[next(self._numbers)] = sock
        self._multiply(group, workers)

    def _complete(self, group: dict[int, socket.socket], workers: int) -> None:
        """Sockets that were given may be too few: of one kind only, or those of fewer workers."""
        here = bound_endpoint(next(iter(group.values())))
        kinds: dict[socket.SocketKind, Callable[[Endpoint], socket.socket]]
        kinds = {socket.SOCK_DGRAM: open_udp, socket.SOCK_STREAM: open_tcp}
        for kind, opens in kinds.items():
            if not any(sock.type == kind for sock in group.values()):
                group[next(self._numbers)] = opens(here)
        # Those of another user can't be joined: then some workers share one, which costs a little speed
        with contextlib.suppress(ListenError):
            self._multiply(group, workers)

    def _multiply(self, group: dict[int, socket.socket], workers: int) -> None:
        for kind, opens in ((socket.SOCK_DGRAM, open_udp), (socket.SOCK_STREAM, open_tcp)):
            sockets = [sock for sock in group.values() if sock.type == kind]
            if len(sockets) < workers:
                for sock in sockets:
                    share(sock)
            for _ in range(len(sockets), workers):
                group[next(self._numbers)] = opens(bound_endpoint(sockets[0]), True)


def _without_surplus(group: Numbered, workers: int) -> dict[int, socket.socket]:
    """UDP sockets for so many workers. More of TCP stay: closing one would reset connections that wait in it."""
    udp = [number for number, sock in group.items() if sock.type == socket.SOCK_DGRAM]
    return {number: sock for number, sock in group.items() if number not in udp[workers:]}


def _overlap(one: Endpoint, other: Endpoint) -> bool:
    """Whether one takes the other's place because it stands for every address."""
    family = [":" in endpoint.host for endpoint in (one, other)]
    return one.port == other.port and family[0] == family[1] and not {one.host, other.host}.isdisjoint(WILDCARDS)
