"""What processors return, one module for each kind of shape."""
