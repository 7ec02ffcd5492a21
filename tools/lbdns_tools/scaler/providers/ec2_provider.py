"""The provider ``ec2``: instances of Amazon EC2 or of a cloud with the same API, created with boto3."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME
from lbdns_tools.scaler.providers import ec2_instances as instances
from lbdns_tools.scaler.providers.cloud_calls import OWNER_TAG, CloudCalls, need_package
from lbdns_tools.scaler.providers.ec2_instances import NAME_TAG, Instance
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError
from lbdns_tools.scaler.providers.user_data import MAX_LENGTH

_VISIBLE_AFTER: Final = 60.0  # s for which an instance may be missing from lists after its creation
_MAX_TOKENS: Final = 1000  # instances of one name within the 24 h for which EC2 remembers a client token


@dataclass(frozen=True, slots=True)
class Ec2Config:
    """The settings of the provider ``ec2``."""

    image: str = read.required()  # ID such as ami-0123456789abcdef0
    instance_type: str = read.required()
    region: str = read.string()  # empty: AWS_DEFAULT_REGION or ~/.aws/config
    profile: str = read.string()  # of ~/.aws/credentials; empty: the usual search for credentials
    endpoint: str = read.string()  # URL of another cloud's API; empty: Amazon's
    subnet: str = read.string()  # ID; empty: the default subnet
    security_groups: tuple[str, ...] = read.each((), str)  # IDs
    key_name: str = read.string()  # an SSH key
    availability_zone: str = read.string()
    public: bool = read.flag(False)  # whether clients use the public IPv4 address, not the private one
    quota: int = read.integer(0, 0, 100_000)  # servers; 0: not known, since EC2 limits vCPUs over all farms
    timeout: float = read.duration(30.0, 0.1)  # of each HTTP request


def check_ec2(config: Ec2Config, table: TomlTable) -> None:
    """Record errors about IDs and the endpoint."""
    if config.endpoint and not re.match(r"https?://[^\s/]+", config.endpoint):
        table.wrong("endpoint", f"must be a URL such as https://ec2.example.net, not {config.endpoint!r}")
    for group in config.security_groups:
        if not group.startswith("sg-"):
            table.wrong(
                "security_groups", f"{group!r} is not the ID of a security group, such as 'sg-0123456789'", group
            )
    for key, prefix in (("image", "ami-"), ("subnet", "subnet-")):
        if (text := getattr(config, key)) and not text.startswith(prefix):
            table.wrong(key, f"{text!r} is not a valid ID; it must begin with {prefix!r}")


class Ec2Provider:
    """A provider of EC2 instances, each of which has the farm's name in a tag."""

    def __init__(self, config: Ec2Config, farm: str, pauses: Sequence[float] | None = None) -> None:
        """Raises ConfigError if boto3 is not installed. ``pauses`` replaces the pauses between attempts."""
        need_package("boto3", "boto3", "ec2")
        self._config, self._farm = config, farm
        options = {} if pauses is None else {"pauses": pauses}
        self._calls = CloudCalls("ec2", config.timeout, instances.translate, instances.is_transient, **options)
        self._client_lock = threading.Lock()
        self._client: Any = None
        self._recent: dict[str, tuple[float, Instance]] = {}  # ID -> monotonic time of creation, and the instance
        self._forgotten: set[str] = set()  # IDs of failed instances that have been deleted
        self._tokens: dict[str, int] = {}  # name -> number of the client token that was free last

    async def machines(self) -> tuple[Machine, ...]:
        """Return the farm's instances. An instance that EC2 has terminated of its own accord is listed as failed until
        it is deleted."""
        found = instances.by_name(await self._all())
        return tuple(instances.machine(instance, self._config.public) for instance in found.values())

    async def quota(self) -> int | None:
        return self._config.quota or None

    async def create(self, name: str, user_data: str) -> None:
        """Create an instance, unless the farm has one with this name.

        A client token ensures that repeated requests create only one instance.
        """
        if not HOST_NAME.match(name):
            raise ProviderError(f"{name!r} is not a host name relative to the zone, such as web-1")
        if len(user_data.encode()) > MAX_LENGTH:
            raise ProviderError(f"the user data of {name} is longer than {MAX_LENGTH} bytes")
        existing = await self._find(name)
        if existing and instances.is_live(existing):
            return
        if existing and instances.status(existing) is MachineStatus.DELETING:
            raise ProviderError(f"cannot create {name}: an instance with this name is being deleted")
        for number in range(self._tokens.get(name, 0), _MAX_TOKENS):
            try:
                run = partial(self._run, name, user_data, number)
                instance = await self._calls.idempotent(run)
            except ProviderError as error:
                if instances.code(error.__cause__) not in instances.TOKEN_USED:
                    raise
                continue
            self._tokens[name] = number
            if instances.is_live(instance):
                self._recent[instance["InstanceId"]] = time.monotonic(), instance
                return
        raise ProviderError(f"cannot create {name}: it was created {_MAX_TOKENS} times in the last 24 h")

    async def start(self, name: str) -> None:
        instance = await self._existing(name)
        status = instances.status(instance)
        if status is MachineStatus.STOPPED:
            await self._request("start_instances", instance)
        elif status not in (MachineStatus.RUNNING, MachineStatus.BUILDING):
            raise ProviderError(f"cannot start {name}: it is {instances.detail(instance)}")

    async def stop(self, name: str) -> None:
        instance = await self._existing(name)
        status = instances.status(instance)
        if status is MachineStatus.RUNNING:
            await self._request("stop_instances", instance)
        elif status not in (MachineStatus.STOPPED, MachineStatus.STOPPING):
            raise ProviderError(f"cannot stop {name}: it is {instances.detail(instance)}")

    async def delete(self, name: str) -> None:
        """Terminate all instances of the farm with this name, and forget those that have failed."""
        for instance in await self._all():
            if instances.name(instance) != name:
                continue
            if instances.is_live(instance):
                await self._request("terminate_instances", instance)
            elif instances.has_failed(instance):
                self._forgotten.add(instance["InstanceId"])

    async def close(self) -> None:
        self._calls.close()
        if self._client is not None:
            self._client.close()

    async def _all(self) -> list[Instance]:
        """Return the farm's existing and failed instances, including new ones that EC2 does not list yet."""
        found = await self._calls.idempotent(self._list, requests=10)
        listed = {instance["InstanceId"] for instance in found}
        now = time.monotonic()
        self._recent = {
            key: (created, instance)
            for key, (created, instance) in self._recent.items()
            if key not in listed and now - created < _VISIBLE_AFTER
        }
        found += [instance for _, instance in self._recent.values()]
        return [
            instance
            for instance in found
            if instances.state(instance) != "terminated"
            or (instances.has_failed(instance) and instance["InstanceId"] not in self._forgotten)
        ]

    async def _find(self, name: str) -> Instance | None:
        return instances.by_name(await self._all()).get(name)

    async def _existing(self, name: str) -> Instance:
        instance = await self._find(name)
        if instance is None:
            raise ProviderError(f"there is no instance {name} in farm {self._farm}")
        return instance

    async def _request(self, what: str, instance: Instance) -> None:
        """Call the operation ``what`` for one instance. The operation must be idempotent."""
        await self._calls.idempotent(lambda: getattr(self._cloud(), what)(InstanceIds=[instance["InstanceId"]]))

    # The following functions run in threads

    def _cloud(self) -> Any:
        """Return the client, which threads may share."""
        with self._client_lock:
            if self._client is None:
                import boto3
                from botocore.config import Config

                config = self._config
                session = boto3.session.Session(profile_name=config.profile or None, region_name=config.region or None)
                options = Config(
                    connect_timeout=config.timeout,
                    read_timeout=config.timeout,
                    retries={"total_max_attempts": 1},  # CloudCalls repeats calls
                    user_agent_extra="lbdns-scaler",
                )
                self._client = session.client("ec2", endpoint_url=config.endpoint or None, config=options)
            return self._client

    def _list(self) -> list[Instance]:
        pages = (
            self._cloud()
            .get_paginator("describe_instances")
            .paginate(Filters=[{"Name": f"tag:{OWNER_TAG}", "Values": [self._farm]}])
        )
        return [instance for page in pages for group in page["Reservations"] for instance in group["Instances"]]

    def _run(self, name: str, user_data: str, number: int) -> Instance:
        """Request an instance. boto3 encodes the user data in base64."""
        tags = [{"Key": OWNER_TAG, "Value": self._farm}, {"Key": NAME_TAG, "Value": name}]
        response = self._cloud().run_instances(
            MinCount=1,
            MaxCount=1,
            UserData=user_data,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
            ClientToken=client_token(self._farm, name, number),
            **self._attributes(),
        )
        instance: Instance = response["Instances"][0]
        return instance

    def _attributes(self) -> Mapping[str, Any]:
        config = self._config
        zone = config.availability_zone
        optional = {
            "SubnetId": config.subnet,
            "SecurityGroupIds": list(config.security_groups),
            "KeyName": config.key_name,
            "Placement": {"AvailabilityZone": zone} if zone else None,
        }
        wanted = {"ImageId": config.image, "InstanceType": config.instance_type}
        return {**wanted, **{key: value for key, value in optional.items() if value}}


def client_token(farm: str, name: str, number: int) -> str:
    """Return the client token of the request to create a server. A restarted scaler generates the same tokens. Pure."""
    return hashlib.sha256(f"lbdns-scaler\0{farm}\0{name}\0{number}".encode()).hexdigest()
