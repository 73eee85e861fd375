"""The devices. These modules, and no others, compute with NumPy, LLVM or CuPy."""
