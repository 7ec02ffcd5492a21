"""Writes the report of a study, a static HTML page with charts and a manifest. From the study's outcomes, the package
computes ratios, variation, and verdicts on requirements. NAME_report.py arranges the results of the study NAME in
sections."""
