"""Reads instances of EC2 (state, addresses and times), and translates the errors of boto3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError, QuotaError

NAME_TAG: Final = "Name"
Instance = Mapping[str, Any]
#: EC2's instance state -> status. Instances that are terminated have failed if nobody has asked for it
_STATUSES: Final = {
    "pending": MachineStatus.BUILDING,
    "running": MachineStatus.RUNNING,
    "stopping": MachineStatus.STOPPING,
    "stopped": MachineStatus.STOPPED,
    "shutting-down": MachineStatus.DELETING,
    "terminated": MachineStatus.FAILED,
}
_ON_REQUEST: Final = "Client.UserInitiatedShutdown"
_CHARGED: Final = ("pending", "running")
_QUOTA_CODES: Final = frozenset(
    {"InstanceLimitExceeded", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded"}
)
_TRANSIENT_CODES: Final = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestThrottled"})
_CREDENTIAL_CODES: Final = frozenset({"AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId"})
#: The client token belongs to an instance that has been terminated, or that was requested with other settings
TOKEN_USED: Final = frozenset({"IdempotentInstanceTerminated", "IdempotentParameterMismatch"})
_SERVER_ERROR: Final = 500  # and above


def state(instance: Instance) -> str:
    return str(instance["State"]["Name"])


def status(instance: Instance) -> MachineStatus:
    return _STATUSES.get(state(instance), MachineStatus.FAILED)


def name(instance: Instance) -> str:
    """Return the value of the tag Name, or an empty string."""
    return next((str(tag["Value"]) for tag in instance.get("Tags", ()) if tag["Key"] == NAME_TAG), "")


def is_live(instance: Instance) -> bool:
    """Return whether the instance exists and is not being deleted."""
    return state(instance) not in ("shutting-down", "terminated")


def has_failed(instance: Instance) -> bool:
    """Return whether EC2 has terminated the instance without being asked to, for example during its launch."""
    return state(instance) == "terminated" and instance.get("StateReason", {}).get("Code", _ON_REQUEST) != _ON_REQUEST


def detail(instance: Instance) -> str:
    """Return the instance's state and, if EC2 states one, the reason."""
    reason = instance.get("StateReason", {}).get("Message", "")
    return f"{state(instance)}: {reason}" if reason else state(instance)


def machine(instance: Instance, public: bool) -> Machine:
    """Return the server that an instance describes. ``public`` selects its public IPv4 address."""
    charged = instance["LaunchTime"].timestamp() if state(instance) in _CHARGED else 0.0
    return Machine(name(instance), status(instance), _addresses(instance, public), charged, detail(instance))


def _addresses(instance: Instance, public: bool) -> tuple[str, ...]:
    ipv4 = instance.get("PublicIpAddress" if public else "PrivateIpAddress", "")
    interfaces = instance.get("NetworkInterfaces", ())
    ipv6 = [entry["Ipv6Address"] for interface in interfaces for entry in interface.get("Ipv6Addresses", ())]
    return tuple(address for address in (ipv4, *ipv6) if address)


def by_name(instances: Iterable[Instance]) -> dict[str, Instance]:
    """Return one instance for each name: a live one if there is one, or else the one launched last."""
    found: dict[str, Instance] = {}
    for instance in sorted(instances, key=lambda one: (is_live(one), state(one) != "terminated", one["LaunchTime"])):
        if name(instance):
            found[name(instance)] = instance
    return dict(sorted(found.items()))


def code(error: BaseException | None) -> str:
    """Return EC2's error code, or an empty string."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may succeed."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        http_status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code(error) in _TRANSIENT_CODES or (
            http_status >= _SERVER_ERROR and code(error) not in ("InsufficientInstanceCapacity", *_QUOTA_CODES)
        )
    return isinstance(error, (exceptions.HTTPClientError, exceptions.ConnectionError))


def translate(error: Exception) -> ProviderError | None:
    """Return the error for an exception of boto3, or None for any other exception."""
    from botocore import exceptions

    if not isinstance(error, (exceptions.ClientError, exceptions.BotoCoreError)):
        return None
    message = " ".join(str(error).split())
    if code(error) in _QUOTA_CODES:
        return QuotaError(f"ec2: {message}")
    if code(error) in _CREDENTIAL_CODES or isinstance(error, exceptions.NoCredentialsError):
        return ProviderError(f"ec2: {message}; check the credentials in ~/.aws/credentials or AWS_ACCESS_KEY_ID")
    return ProviderError(f"ec2: {message}")
