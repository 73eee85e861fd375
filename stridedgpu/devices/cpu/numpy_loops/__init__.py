"""Every operation in NumPy: the reference, and what runs where nothing can be compiled."""
