"""Answers in the kernel: loads the XDP program of ``native/xdp``, and fills the tables from which it answers."""
