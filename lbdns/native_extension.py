"""The native extension, if it is installed and was built for this version of lbdns."""

from __future__ import annotations

from typing import Final

try:
    import lbdns_native
except ImportError:  # everything that it does can be done in Python too
    lbdns_native = None  # type: ignore[assignment]

#: The version of the interface to the native extension, which is built and upgraded separately
INTERFACE: Final = 16
#: Whether the extension was built for another version of lbdns
STALE: Final = lbdns_native is not None and getattr(lbdns_native, "INTERFACE", 1) != INTERFACE
AVAILABLE: Final = lbdns_native is not None and not STALE


def provides(function: str) -> bool:
    """Return whether the extension is available and has ``function``, which an older build of the same interface may
    lack."""
    return AVAILABLE and hasattr(lbdns_native, function)
