"""The loads and the disturbances that studies apply to a farm."""
