"""The configuration file scaler.toml."""
