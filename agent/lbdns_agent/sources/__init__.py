"""Metrics that the configuration file defines: where their values come from, and how a value is found in a text."""
