"""A web host of the lab: what it serves, its Apache, its agent."""
