"""The CPU's native library: loading it, calling its loops, sharing them between threads, and choosing them."""
