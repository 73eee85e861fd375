"""Grid and parameters of each kernel, as values: pure, no CuPy."""
