"""The devices: memory, plans and all that computes."""
