"""The report of a lab study: a static HTML page, charts, and a manifest of versions, machine and settings."""
