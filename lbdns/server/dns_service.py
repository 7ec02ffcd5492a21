"""The DNS service: listening sockets and the answerer that answers on them, which change together."""

from __future__ import annotations

from collections.abc import Sequence

from lbdns.process.apply_configuration import PreparedChange, commit_all
from lbdns.secrets.cookie_secrets import new_cookie_secret
from lbdns.server.answerer import Answerer, AnsweringConfiguration
from lbdns.server.server_configuration import ServeConfiguration
from lbdns.sockets.inherited_sockets import InheritedSocket
from lbdns.sockets.socket_groups import SocketGroups


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
