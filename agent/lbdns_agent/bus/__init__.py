"""Publishes reports to a NATS server, over one non-blocking connection in the agent's own loop."""
