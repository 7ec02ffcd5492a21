"""What a lab is built from: its web hosts, its TOML file, the addresses of its machines."""
