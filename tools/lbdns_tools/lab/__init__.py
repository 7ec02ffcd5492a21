"""The lab, which builds a farm of web servers on one machine and runs load-balancing studies on it."""
