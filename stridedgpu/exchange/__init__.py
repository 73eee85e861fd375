"""Memory that comes from other libraries, and memory handed to them."""
