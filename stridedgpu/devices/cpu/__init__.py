"""The processor: aligned memory, and plans run by native loops or by NumPy."""
