"""The machines of a lab: network namespaces, control groups and programs, and their removal."""
