"""Describes a lab's farm: its web hosts, its TOML file, and the addresses of its machines."""
