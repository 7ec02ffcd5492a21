"""The studies that ``lbdns-lab`` can run. NAME_study.py defines a study's steps, and NAME_report.py its report."""
