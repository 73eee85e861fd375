"""What `sg.` is: anything array-like in, tensors out."""
