"""Writes the report of a lab study: a static HTML page, charts, and a manifest (versions, machine, settings)."""
