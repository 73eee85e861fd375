"""Running on a GPU: the only modules that import CuPy."""
