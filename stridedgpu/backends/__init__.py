"""The devices. These modules, and no others, compute with NumPy, Numba or CuPy."""
