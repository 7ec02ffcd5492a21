"""Writes the report of a study: a static HTML page, charts, and a manifest (versions, machine, settings)."""
