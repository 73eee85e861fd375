"""What `Preprocess` is made of: its declaration, and the worker that keeps to it."""
