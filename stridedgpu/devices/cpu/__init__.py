"""The processor: aligned memory, and plans run by compiled loops or by NumPy."""
