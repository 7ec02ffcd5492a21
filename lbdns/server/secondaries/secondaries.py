"""Secondary name servers: the serials that they are served, kept over restarts, and NOTIFY when one changes."""

from __future__ import annotations

from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.secondaries.notifier import Notifier
from lbdns.server.secondaries.zone_serials import SerialFile
from lbdns.server.server_configuration import ServeConfiguration


class Secondaries:
    """Keeps the file of serials and notifies secondaries once the zones are in force."""

    def __init__(self) -> None:
        self._serial_file, self._notifier = SerialFile(), Notifier()

    def start(self, configuration: ServeConfiguration) -> None:
        """Write the serials and notify. The zones must be in force: secondaries ask for them at once."""
        self._serial_file.write(configuration.farm, configuration.serials)
        self._notifier.reload(configuration.farm)

    async def prepare(self, new: ServeConfiguration) -> PreparedChange:
        """Return a change that notifies when it finishes; it must be applied after the answers."""

        async def finish() -> None:
            self.start(new)

        return PreparedChange("secondaries", finish=finish)

    async def stop(self) -> None:
        await self._notifier.stop()
