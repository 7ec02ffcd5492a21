"""Control groups, version 1 and 2: the limits this host's figures are measured against."""
