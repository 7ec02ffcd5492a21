"""The process itself: user, capabilities, name, and what the service manager hears of it."""
