"""Every operation in NumPy: the reference, and what runs where the native library has no loop."""
