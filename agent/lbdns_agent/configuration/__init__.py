"""Reads the agent's configuration file, /etc/lbdns/agent.conf."""
