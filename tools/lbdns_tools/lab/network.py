"""The lab's network: a namespace for each machine, all joined by the hub's bridge, with no way out.

The hub is everybody's gateway and has no other interface: whatever is meant for elsewhere is refused there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from lbdns.errors import LbdnsError
from lbdns_tools.lab.addresses import NETWORK4, NETWORK6, Machine
from lbdns_tools.lab.place import ETC, NAMESPACES

_Result = TypeVar("_Result")

LINK: Final = "eth0"  # a machine's only interface besides the loopback
_BRIDGE: Final = "hub"
_NODAD: Final = 0x02  # IFA_F_NODAD: an address is usable at once, where the kernel would look for the same one first
_CLONE_NEWNET: Final = 0x40000000  # linux/sched.h; os.unshare() came with Python 3.12
_SYSCTLS: Final = Path("/proc/sys/net")

#: Of every machine. "default" is what an interface begins with
_EVERYWHERE: Final[Mapping[str, str]] = {
    # A new namespace takes IPv4's settings from the machine, which may be a router
    "ipv4/ip_forward": "0",
    "ipv6/conf/all/disable_ipv6": "0",
    "ipv6/conf/default/disable_ipv6": "0",
    "ipv6/conf/lo/disable_ipv6": "0",
    # Nobody else is on this network: no routers to listen to, no second owner of an address to look for
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/default/autoconf": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/router_solicitations": "0",
    # 1500 clients at once wait to be accepted where a kernel before 5.4 would turn away all but 128. How many really
    # may is then up to each server's own backlog
    "core/somaxconn": "4096",
    "ipv4/tcp_max_syn_backlog": "4096",
}
#: Of machines that make a new connection for every request. A port stays taken for the minute of TIME-WAIT, so that
#: 28,000 ports would be used up by 470 connections a second from one address to another; and may be used again after a
#: second where time stamps tell an old segment from a new one (RFC 6191)
_CONNECTING: Final[Mapping[str, str]] = {"ipv4/ip_local_port_range": "1024 65535", "ipv4/tcp_tw_reuse": "1"}
#: Of the hub: it says "no route" at once, where a host would drop what is for elsewhere, and its sender wait
_HUB: Final[Mapping[str, str]] = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}
#: Of the hub, where the machine has them: its frames needn't go through the packet filter
_BRIDGED: Final = (
    "bridge/bridge-nf-call-iptables",
    "bridge/bridge-nf-call-ip6tables",
    "bridge/bridge-nf-call-arptables",
)
_OF_KIND: Final[Mapping[str, Mapping[str, str]]] = {"hub": _HUB, "client": _CONNECTING, "proxy": _CONNECTING}


def namespace_of(id: str, machine_name: str) -> str:
    """The name of the namespace of a lab's machine."""
    return f"{_prefix(id)}{machine_name}"


def build(id: str, machines: Sequence[Machine]) -> None:
    """Make the network of a lab; the first machine is its hub. What was made until an error stays for ``remove``.

    Raises LbdnsError.
    """
    _, errors = _pyroute2()
    if not Path(_SYSCTLS, "ipv6").is_dir():
        raise LbdnsError("the lab needs IPv6, which this kernel was started without (ipv6.disable)")
    hub, *others = machines
    try:
        for machine in machines:
            _in_thread(partial(_make_namespace, namespace_of(id, machine.name), machine))
        namespaces = [namespace_of(id, machine.name) for machine in others]
        inside(namespace_of(id, hub.name), partial(_build_hub, hub, namespaces))
        for machine, namespace in zip(others, namespaces, strict=True):
            inside(namespace, partial(_build_machine, machine, hub))
    except (OSError, errors) as error:
        raise LbdnsError(f"the lab's network can't be built: {_why(error)}") from None


def remove(id: str) -> list[str]:
    """Remove what there is of a lab's network, and its files below /etc/netns; what that was. Raises LbdnsError."""
    removed = []
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(NAMESPACES.glob(f"{_prefix(id)}*")):
            _remove_namespace(path.name)
            removed.append(f"network namespace {path.name}")
    for path in sorted(ETC.glob(f"{_prefix(id)}*")):
        shutil.rmtree(path, ignore_errors=True)
        removed.append(str(path))
    with contextlib.suppress(OSError):
        ETC.rmdir()  # ours, unless somebody else has something there too
    return removed


def inside(namespace: str, do: Callable[[], _Result]) -> _Result:
    """Do something in a namespace, in a thread of its own that moves there: its sockets stay there afterwards."""
    netns, _ = _pyroute2()

    def move_and_do() -> _Result:
        netns.setns(namespace, flags=0)
        return do()

    return _in_thread(move_and_do)


def _in_thread(do: Callable[[], _Result]) -> _Result:
    """Do something in a thread that ends with it: a namespace that a thread has gone to is its own alone."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(do).result()


def _prefix(id: str) -> str:
    return f"lbdns-{id}-"


def _pyroute2() -> tuple[Any, type[Exception]]:
    try:
        from pyroute2 import netns
        from pyroute2.netlink.exceptions import NetlinkError
    except ModuleNotFoundError:
        raise LbdnsError("the lab needs pyroute2: run `make deps-lab`, or pip install 'lbdns[lab]'") from None
    return netns, NetlinkError


def _remove_namespace(name: str) -> None:
    netns, _ = _pyroute2()
    try:
        netns.remove(name)
    except FileNotFoundError:
        pass  # somebody else was quicker
    except OSError as error:
        raise LbdnsError(f"the network namespace {name} can't be removed: {_why(error)}") from None


def _make_namespace(name: str, machine: Machine) -> None:
    """Make a namespace and go there. Settings come first: an interface begins with those that there are."""
    netns, _ = _pyroute2()
    # netns.create() would fork for it: a copy of this process for every machine, which has threads besides
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    NAMESPACES.mkdir(exist_ok=True)
    folder = os.open(NAMESPACES, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # As ip-netns(8) does: the first of all namespaces turns the folder into a mount, which must not happen twice
        fcntl.flock(folder, fcntl.LOCK_EX)
        netns.attach(name, threading.get_native_id())
    finally:
        os.close(folder)
    for name, value in {**_EVERYWHERE, **_OF_KIND.get(machine.kind, {})}.items():
        (_SYSCTLS / name).write_text(value)
    if machine.kind == "hub":
        for name in _BRIDGED:
            with contextlib.suppress(FileNotFoundError):
                (_SYSCTLS / name).write_text("0")


def _build_hub(hub: Machine, namespaces: Sequence[str]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        # No tree of bridges to find, and multicast to all: keeping track of who listens would be work for nothing
        route.link("add", ifname=_BRIDGE, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
        bridge = _index(route, _BRIDGE)
        for number, namespace in enumerate(namespaces, start=1):
            port = f"port{number}"
            route.link("add", ifname=port, kind="veth", peer={"ifname": LINK, "net_ns_fd": namespace})
            route.link("set", index=_index(route, port), master=bridge, state="up")
        _address(route, bridge, hub)
        for family in (socket.AF_INET, socket.AF_INET6):
            route.route("add", family=family, dst="default", type="unreachable")


def _build_machine(machine: Machine, hub: Machine) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        _address(route, _index(route, LINK), machine)
        for family, gateway in ((socket.AF_INET, hub.address), (socket.AF_INET6, hub.address6)):
            route.route("add", family=family, dst="default", gateway=gateway)


def _address(route: Any, link: int, machine: Machine) -> None:
    """Give a machine's interface its addresses, and set all up."""
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
        return "it needs root: run it as root"
    code = getattr(error, "code", None) or getattr(error, "errno", None)
    if code == errno.EPERM:
        return "not permitted: it needs CAP_NET_ADMIN and CAP_SYS_ADMIN, which a container most often lacks"
    if code == errno.EOPNOTSUPP:
        return "this kernel has no bridge or no veth interfaces: load the modules bridge and veth"
    return str(error)
