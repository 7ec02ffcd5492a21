"""The provider ``openstack``: servers in an OpenStack cloud, created with openstacksdk."""

from __future__ import annotations

import base64
import contextlib
import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME
from lbdns_tools.scaler.providers import openstack_servers as servers
from lbdns_tools.scaler.providers.cloud_calls import OWNER_TAG, CloudCalls, need_package
from lbdns_tools.scaler.providers.openstack_servers import STARTED_TAG
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError, QuotaError

if TYPE_CHECKING:
    from openstack.compute.v2.server import Server
    from openstack.connection import Connection

MAX_USER_DATA: Final = 65_535  # bytes in base64: the limit of Nova
_UNLIMITED: Final = -1

log = logging.getLogger("lbdns.scaler")


@dataclass(frozen=True, slots=True)
class OpenStackConfig:
    """The settings of the provider ``openstack``. Images, flavors and networks are given by name or ID."""

    image: str = read.required()
    flavor: str = read.required()
    cloud: str = read.string()  # an entry of clouds.yaml; empty: the OS_ variables of the environment
    region: str = read.string()
    networks: tuple[str, ...] = read.each((), str)  # empty: the only network of the project
    key_name: str = read.string()  # an SSH key
    security_groups: tuple[str, ...] = read.each((), str)
    availability_zone: str = read.string()
    public: bool = read.flag(False)  # whether clients use the floating addresses, not the fixed ones
    timeout: float = read.duration(30.0, 0.1)  # of each HTTP request


def check_openstack(config: OpenStackConfig, table: TomlTable) -> None:
    """Record an error for each name that is empty."""
    for key in ("networks", "security_groups"):
        if "" in getattr(config, key):
            table.wrong(key, "a name is empty")


class OpenStackProvider:
    """A provider of OpenStack servers, each of which has the farm's name in its metadata."""

    def __init__(self, config: OpenStackConfig, farm: str, pauses: Sequence[float] | None = None) -> None:
        """Raises ConfigError if openstacksdk is not installed. ``pauses`` replaces the pauses between attempts."""
        need_package("openstack", "openstacksdk", "openstack")
        self._config, self._farm = config, farm
        options = {} if pauses is None else {"pauses": pauses}
        self._calls = CloudCalls("openstack", config.timeout, servers.translate, servers.is_transient, **options)
        self._local = threading.local()  # a connection must not be shared between threads
        self._connections: list[Connection] = []
        self._creates = False
        self._found: dict[str, Any] = {}  # images, flavors and networks that have been looked up

    async def machines(self) -> tuple[Machine, ...]:
        """Return the farm's servers. If a lost response has led to several servers with the same name, delete all but
        one. A provider that has created nothing, for example in a dry run, deletes nothing.
        """
        kept, doubles = servers.without_doubles(await self._calls.idempotent(self._list, requests=4))
        for double in doubles if self._creates else ():
            log.warning(
                "deleting server %s, because another server of the farm has the same name, %s", double.id, double.name
            )
            await self._calls.idempotent(partial(self._delete, double.id))
        return tuple(servers.machine(server, self._config.public) for server in kept)

    async def quota(self) -> int | None:
        """Return the number of servers that the project's limits on instances, cores and memory permit."""
        return await self._calls.idempotent(self._quota, requests=4)

    async def create(self, name: str, user_data: str) -> None:
        """Create a server, unless the farm has one with this name."""
        if not HOST_NAME.match(name):
            raise ProviderError(f"{name!r} is not a host name relative to the zone, such as web-1")
        encoded = base64.b64encode(user_data.encode()).decode()
        if len(encoded) > MAX_USER_DATA:
            raise ProviderError(f"the user data of {name} is longer than {MAX_USER_DATA} bytes in base64")
        self._creates = True
        if await self._is_there(name):
            return
        attributes = await self._calls.idempotent(self._attributes, requests=8)
        try:
            await self._calls.once(partial(self._create, name, encoded, attributes))
        except QuotaError:
            raise
        except ProviderError as error:
            # The response may have been lost. If the server appears only later, the next call of create finds it
            if servers.is_transient(error.__cause__) and await self._is_there(name):
                return
            raise

    async def start(self, name: str) -> None:
        server = await self._existing(name)
        status = servers.status(server)
        if status is MachineStatus.STOPPED:
            await self._calls.idempotent(partial(self._start, server), requests=3)
        elif status not in servers.STARTED:
            raise ProviderError(f"cannot start {name}: its status is {servers.detail(server)}")

    async def stop(self, name: str) -> None:
        server = await self._existing(name)
        status = servers.status(server)
        if status in (MachineStatus.RUNNING, MachineStatus.FAILED):
            await self._calls.idempotent(partial(self._stop, server), requests=2)
        elif status not in servers.HALTED:
            raise ProviderError(f"cannot stop {name}: its status is {servers.detail(server)}")

    async def delete(self, name: str) -> None:
        """Delete all servers of the farm with this name."""
        for server in await self._named(name):
            if servers.status(server) is not MachineStatus.DELETING:
                await self._calls.idempotent(partial(self._delete, server.id))

    async def close(self) -> None:
        self._calls.close()
        for connection in self._connections:
            with contextlib.suppress(Exception):
                connection.close()

    async def _named(self, name: str) -> list[Server]:
        return [server for server in await self._calls.idempotent(self._list, requests=4) if server.name == name]

    async def _existing(self, name: str) -> Server:
        kept, _ = servers.without_doubles(await self._named(name))
        if not kept:
            raise ProviderError(f"there is no server {name} in farm {self._farm}")
        return kept[0]

    async def _is_there(self, name: str) -> bool:
        """Return whether the farm has this server. Raises ProviderError if it is being deleted."""
        found = await self._named(name)
        if found and all(servers.status(server) is MachineStatus.DELETING for server in found):
            raise ProviderError(f"cannot create {name}: a server with this name is being deleted")
        return bool(found)

    # The following functions run in threads

    def _cloud(self) -> Connection:
        """Return this thread's connection. A new connection authenticates when it sends its first request."""
        import openstack

        if not hasattr(self._local, "connection"):
            self._local.connection = openstack.connect(
                cloud=self._config.cloud or None,
                region_name=self._config.region or None,
                app_name="lbdns-scaler",
                api_timeout=self._config.timeout,
            )
            self._connections.append(self._local.connection)
        connection: Connection = self._local.connection
        return connection

    def _list(self) -> list[Server]:
        every = self._cloud().compute.servers()
        return [
            server
            for server in every
            if (server.metadata or {}).get(OWNER_TAG) == self._farm and server.status not in servers.GONE
        ]

    def _quota(self) -> int | None:
        compute = self._cloud().compute
        limits = compute.get_limits().absolute
        flavor = self._flavor()
        free = []
        for most, used, each in (
            (limits.instances, limits.instances_used, 1),
            (limits.total_cores, limits.total_cores_used, flavor.vcpus),
            (limits.total_ram, limits.total_ram_used, flavor.ram),
        ):
            if most is not None and most != _UNLIMITED and each:
                free.append(max(0, most - (used or 0)) // each)
        return len(self._list()) + min(free) if free else None

    def _flavor(self) -> Any:
        if "flavor" not in self._found:
            self._found["flavor"] = self._cloud().compute.find_flavor(self._config.flavor, ignore_missing=False)
        return self._found["flavor"]

    def _attributes(self) -> Mapping[str, Any]:
        """Return the attributes of new servers, with the IDs of image, flavor and networks."""
        cloud, config, found = self._cloud(), self._config, self._found
        if "image" not in found:
            found["image"] = cloud.image.find_image(config.image, ignore_missing=False)
        if "networks" not in found:
            find = partial(cloud.network.find_network, ignore_missing=False)
            found["networks"] = [find(name) for name in config.networks]
        optional = {
            "networks": [{"uuid": network.id} for network in found["networks"]],
            "key_name": config.key_name,
            "security_groups": [{"name": name} for name in config.security_groups],
            "availability_zone": config.availability_zone,
        }
        wanted = {"image_id": found["image"].id, "flavor_id": self._flavor().id}
        return {**wanted, **{key: value for key, value in optional.items() if value}}

    def _create(self, name: str, user_data: str, attributes: Mapping[str, Any]) -> None:
        self._cloud().compute.create_server(
            name=name, user_data=user_data, metadata={OWNER_TAG: self._farm}, **attributes
        )

    def _start(self, server: Server) -> None:
        compute = self._cloud().compute
        compute.set_server_metadata(server.id, **{STARTED_TAG: f"{time.time():.0f}"})
        with servers.conflict_ignored_if(partial(self._has_status, server.id, servers.STARTED)):
            compute.start_server(server.id)

    def _stop(self, server: Server) -> None:
        with servers.conflict_ignored_if(partial(self._has_status, server.id, servers.HALTED)):
            self._cloud().compute.stop_server(server.id)

    def _has_status(self, server_id: str, statuses: Collection[MachineStatus]) -> bool:
        return servers.status(self._cloud().compute.get_server(server_id)) in statuses

    def _delete(self, server_id: str) -> None:
        self._cloud().compute.delete_server(server_id, ignore_missing=True)
