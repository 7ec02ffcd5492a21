"""lbdns-scaler: starts, drains and stops web servers so that the size of the farm follows its load."""
