"""Which kernel moves a problem on a GPU, and how wide: pure, no CuPy."""
