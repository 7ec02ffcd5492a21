"""Builds the lab's isolated network, in which a bridge connects the network namespaces of all machines.

The hub contains the bridge and is the gateway of every machine. The hub has no interface outside the lab, and therefore
rejects packets for other networks.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import shutil
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import NETWORK4, NETWORK6, LabMachine
from lbdns_tools.lab.machines.placed_machine import ETC, NAMESPACES

_Result = TypeVar("_Result")

LINK: Final = "eth0"  # a machine's only interface besides the loopback
_BRIDGE: Final = "hub"
_NODAD: Final = 0x02  # IFA_F_NODAD: an address is usable at once, without duplicate address detection
_CLONE_NEWNET: Final = 0x40000000  # linux/sched.h; os.unshare() needs Python 3.12
_SYSCTLS: Final = Path("/proc/sys/net")

#: The sysctls of every machine. "default" holds a new interface's initial settings
_EVERYWHERE: Final[Mapping[str, str]] = {
    # A new namespace inherits IPv4 settings from this machine, which may be a router
    "ipv4/ip_forward": "0",
    "ipv6/conf/all/disable_ipv6": "0",
    "ipv6/conf/default/disable_ipv6": "0",
    "ipv6/conf/lo/disable_ipv6": "0",
    # This network has no routers to listen to, and no duplicate addresses to detect
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/default/autoconf": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/router_solicitations": "0",
    # Lets 1500 clients wait to be accepted at once (kernels before 5.4 allow 128), so that only each server's own
    # backlog limits them
    "core/somaxconn": "4096",
    "ipv4/tcp_max_syn_backlog": "4096",
}
#: The sysctls of machines that open a connection for every request. A port stays in TIME-WAIT for a minute, so 470
#: connections/s between two addresses would use up 28,000 ports; with TCP timestamps, a port can be reused after one
#: second (RFC 6191)
_CONNECTING: Final[Mapping[str, str]] = {"ipv4/ip_local_port_range": "1024 65535", "ipv4/tcp_tw_reuse": "1"}
#: The sysctls of the hub. As a router it rejects packets for other networks at once; a host would drop them silently
_HUB: Final[Mapping[str, str]] = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}
_OF_KIND: Final[Mapping[str, Mapping[str, str]]] = {"hub": _HUB, "client": _CONNECTING, "proxy": _CONNECTING}


def namespace_of(id: str, machine_name: str) -> str:
    """Return the name of a machine's network namespace."""
    return f"lbdns-{id}-{machine_name}"


def build(id: str, machines: Sequence[LabMachine]) -> None:
    """Build the network of a lab. The first item in ``machines`` must be the hub.

    Raises LbdnsError. The caller must then call ``remove``.
    """
    _, errors = _pyroute2()
    if not Path(_SYSCTLS, "ipv6").is_dir():
        raise LbdnsError(
            "the lab needs IPv6, but IPv6 is disabled in this kernel; remove ipv6.disable from the kernel's command "
            "line"
        )
    hub, *others = machines
    try:
        for machine in machines:
            _in_thread(partial(_make_namespace, namespace_of(id, machine.name), machine))
        namespaces = [namespace_of(id, machine.name) for machine in others]
        inside(namespace_of(id, hub.name), partial(_build_hub, hub, namespaces))
        for machine, namespace in zip(others, namespaces, strict=True):
            inside(namespace, partial(_build_machine, machine, hub))
    except (OSError, errors) as error:
        raise LbdnsError(f"cannot build the lab's network: {_why(error)}") from None


def add(id: str, machine: LabMachine, hub: LabMachine) -> None:
    """Add a machine to the network of a lab that has been built. Raises LbdnsError."""
    _, errors = _pyroute2()
    namespace, hub_namespace = namespace_of(id, machine.name), namespace_of(id, hub.name)
    if not (NAMESPACES / hub_namespace).exists():
        raise LbdnsError(f"there is no lab {id}: the network namespace {hub_namespace} does not exist")
    # Distinct from the ports of ``build``, and unique, since the address is
    port = f"host{int(ipaddress.IPv4Address(machine.address)) - int(NETWORK4.network_address)}"
    try:
        _in_thread(partial(_make_namespace, namespace, machine))
        inside(hub_namespace, partial(_add_port, port, namespace))
        inside(namespace, partial(_build_machine, machine, hub))
    except (OSError, errors) as error:
        raise LbdnsError(f"cannot add {machine.name} to the lab's network: {_why(error)}") from None


def remove_machine(id: str, name: str) -> bool:
    """Remove one machine's network namespace and its /etc/netns files.

    Return whether the namespace existed. Raises LbdnsError.
    """
    netns, _ = _pyroute2()
    namespace = namespace_of(id, name)
    shutil.rmtree(ETC / namespace, ignore_errors=True)
    if not (NAMESPACES / namespace).exists():
        return False
    try:
        netns.remove(namespace)
    except FileNotFoundError:
        return False  # another process has just removed it
    except OSError as error:
        raise LbdnsError(f"cannot remove the network namespace {namespace}: {_why(error)}") from None
    return True


def remove(id: str) -> list[str]:
    """Remove a lab's network namespaces and its /etc/netns files. Return one line of text per removed item. Raises
    LbdnsError."""
    removed, names = [], namespace_of(id, "*")
    for path in sorted(NAMESPACES.glob(names)):
        netns, _ = _pyroute2()
        try:
            netns.remove(path.name)
        except FileNotFoundError:
            pass  # another process has just removed it
        except OSError as error:
            raise LbdnsError(f"cannot remove the network namespace {path.name}: {_why(error)}") from None
        removed.append(f"network namespace {path.name}")
    for path in sorted(ETC.glob(names)):
        shutil.rmtree(path, ignore_errors=True)
        removed.append(str(path))
    with contextlib.suppress(OSError):
        ETC.rmdir()  # fails, as intended, while the folder holds other files
    return removed


def inside(namespace: str, do: Callable[[], _Result]) -> _Result:
    """Call ``do`` in a network namespace and return its result. Sockets that ``do`` creates remain in the namespace."""
    netns, _ = _pyroute2()

    def move_and_do() -> _Result:
        netns.setns(namespace, flags=0)
        return do()

    return _in_thread(move_and_do)


def set_sysctls(namespace: str, values: Mapping[str, str]) -> dict[str, str]:
    """Set sysctls, such as "core/somaxconn", in a network namespace; return their values before. Raises LbdnsError."""

    def exchange() -> dict[str, str]:
        before = {name: (_SYSCTLS / name).read_text().strip() for name in values}
        for name, value in values.items():
            (_SYSCTLS / name).write_text(value)
        return before

    try:
        return inside(namespace, exchange)
    except OSError as error:
        raise LbdnsError(f"cannot set {', '.join(values)} in the namespace {namespace}: {_why(error)}") from None


def _in_thread(do: Callable[[], _Result]) -> _Result:
    """Call ``do`` in a separate thread, because setns() and unshare() change the namespace of the calling thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(do).result()


def _pyroute2() -> tuple[Any, type[Exception]]:
    try:
        from pyroute2 import netns
        from pyroute2.netlink.exceptions import NetlinkError
    except ModuleNotFoundError:
        raise LbdnsError(
            "the lab requires pyroute2; in a checkout, run `make deps-lab`; elsewhere, pip install 'lbdns-tools[lab]'"
        ) from None
    return netns, NetlinkError


def _make_namespace(name: str, machine: LabMachine) -> None:
    """Create and enter a network namespace, and set the sysctls that later interfaces inherit."""
    netns, _ = _pyroute2()
    # netns.create() would fork this process, which has threads, for every machine
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    NAMESPACES.mkdir(exist_ok=True)
    folder = os.open(NAMESPACES, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # As ip-netns(8) does: the first namespace makes the folder a mount point, which must happen only once
        fcntl.flock(folder, fcntl.LOCK_EX)
        netns.attach(name, threading.get_native_id())
    finally:
        os.close(folder)
    for name, value in {**_EVERYWHERE, **_OF_KIND.get(machine.kind, {})}.items():
        (_SYSCTLS / name).write_text(value)
    if machine.kind == "hub":
        for tables in ("iptables", "ip6tables", "arptables"):  # keeps the hub's frames out of the packet filter
            with contextlib.suppress(FileNotFoundError):  # not every kernel has these
                (_SYSCTLS / f"bridge/bridge-nf-call-{tables}").write_text("0")


def _build_hub(hub: LabMachine, namespaces: Sequence[str]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        # With a single bridge and few machines, spanning tree and multicast snooping would be wasted work
        route.link("add", ifname=_BRIDGE, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
        bridge = _index(route, _BRIDGE)
        for number, namespace in enumerate(namespaces, start=1):
            _connect(route, f"port{number}", namespace, bridge)
        _address(route, bridge, hub)
        for family in (socket.AF_INET, socket.AF_INET6):
            route.route("add", family=family, dst="default", type="unreachable")


def _connect(route: Any, port: str, namespace: str, bridge: int) -> None:
    """Connect the interface of the machine in ``namespace`` with a new port of the bridge."""
    route.link("add", ifname=port, kind="veth", peer={"ifname": LINK, "net_ns_fd": namespace})
    route.link("set", index=_index(route, port), master=bridge, state="up")


def _add_port(port: str, namespace: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        _connect(route, port, namespace, _index(route, _BRIDGE))


def _build_machine(machine: LabMachine, hub: LabMachine) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        _address(route, _index(route, LINK), machine)
        for family, gateway in ((socket.AF_INET, hub.address), (socket.AF_INET6, hub.address6)):
            route.route("add", family=family, dst="default", gateway=gateway)


def _address(route: Any, link: int, machine: LabMachine) -> None:
    route.link("set", index=_index(route, "lo"), state="up")
    route.link("set", index=link, state="up")
    for address in machine.addresses4:
        route.addr("add", index=link, address=address, prefixlen=NETWORK4.prefixlen)
    route.addr("add", index=link, address=machine.address6, prefixlen=NETWORK6.prefixlen, flags=_NODAD)


def _index(route: Any, name: str) -> int:
    (index,) = route.link_lookup(ifname=name)
    return int(index)


def _why(error: Exception) -> str:
    if os.geteuid() != 0:
        return "permission denied; run the lab as root"
    code = getattr(error, "code", None) or getattr(error, "errno", None)
    if code == errno.EPERM:
        return "not permitted; run the lab with CAP_NET_ADMIN and CAP_SYS_ADMIN, which are missing in most containers"
    if code == errno.EOPNOTSUPP:
        return "the kernel does not support bridge or veth interfaces; load the kernel modules bridge and veth"
    return str(error)
