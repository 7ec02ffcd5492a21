"""Who is set aside although its reports look well, who is ramped up, and how much can be spared. Pure."""
