"""lbdns-scaler: starts, drains and stops web servers so that the farm follows its load."""
