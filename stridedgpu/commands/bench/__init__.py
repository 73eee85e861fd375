"""Benchmarks: named workloads, the peers they are timed beside, and the command `stridedgpu bench`."""
