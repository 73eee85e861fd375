"""NVIDIA GPUs: what chooses and lays out a launch, and the runtime through CuPy."""
