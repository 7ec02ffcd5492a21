"""Terminal output of ``lbdns top``, ``watch``, ``status`` and ``explain``."""
