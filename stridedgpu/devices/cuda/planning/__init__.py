"""The choice of CUDA kernels and access widths: pure functions of a problem and a GPU, without CuPy."""
