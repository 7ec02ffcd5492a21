"""The studies that ``lbdns-lab`` can run. NAME_study.py defines the steps of the study NAME."""
