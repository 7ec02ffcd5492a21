"""The studies that ``lbdns-lab`` can run. NAME_study.py defines the steps of the study NAME. NAME_report.py defines the
study's report."""
