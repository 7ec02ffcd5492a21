"""The loads and disturbances to which a study subjects a farm."""
