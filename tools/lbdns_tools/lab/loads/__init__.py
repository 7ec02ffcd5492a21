"""The loads and disturbances to which studies subject a farm."""
