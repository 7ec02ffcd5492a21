"""The lab builds a farm of web servers on one machine and runs studies on it."""
