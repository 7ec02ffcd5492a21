"""The studies that ``lbdns-lab`` can run: NAME_study.py has the steps of a study, NAME_report.py its report."""
