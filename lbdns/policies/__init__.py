"""How a member is chosen: one policy, one file, one line in this table."""

POLICIES = ("best", "best_score", "round_robin", "weighted")
