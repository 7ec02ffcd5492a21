"""The loads and disturbances of a farm during a study."""
