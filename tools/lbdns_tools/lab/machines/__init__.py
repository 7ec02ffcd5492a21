"""The machines of a lab: network namespaces, control groups and programs, and the removal of all of these."""
