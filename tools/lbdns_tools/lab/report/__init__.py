"""Writes the report of a study, a static HTML page: computes statistics from the outcomes of the study (ratios,
variation, verdicts on requirements), and arranges them in sections (NAME_report.py for the study NAME), with charts and
a manifest."""
