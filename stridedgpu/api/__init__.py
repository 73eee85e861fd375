"""The public functions: anything array-like in, tensors out."""
