"""NVIDIA GPUs: planning, launches as values, and the runtime through CuPy."""
