"""The emulated device: a CUDA device's streams, pointers and errors on a machine without a GPU."""
