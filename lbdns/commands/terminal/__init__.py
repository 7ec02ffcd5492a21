"""What ``lbdns top``, ``watch``, ``status`` and ``explain`` show in a terminal."""
