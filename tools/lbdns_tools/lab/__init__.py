"""The lab: a farm of web servers on one machine, and the studies that are done on it."""
