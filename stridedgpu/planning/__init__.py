"""Plans: how an operation will be done, decided in pure Python and the same on a machine without any device."""
