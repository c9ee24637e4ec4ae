"""What a session writes when it ends: phases, conditions, events and statuses."""
