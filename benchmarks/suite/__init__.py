"""Named workloads, the peers they are timed beside, and what is printed and written of them."""
