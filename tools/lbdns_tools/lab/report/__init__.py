"""The report of a lab study: static HTML page, charts, and a manifest of versions, machine and settings."""
