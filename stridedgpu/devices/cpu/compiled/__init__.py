"""Loops compiled for the processor at hand through llvmlite."""
