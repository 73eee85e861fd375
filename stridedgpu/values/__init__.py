"""Immutable values and integer arithmetic: no array library."""
