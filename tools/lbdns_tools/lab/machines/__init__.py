"""Creates and removes a lab's machines: network namespaces, control groups and programs."""
