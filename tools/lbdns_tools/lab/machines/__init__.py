"""The machines of a lab: network namespaces, control groups, programs, and their removal."""
