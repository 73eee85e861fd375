"""Wrong changes of the sources, and the command that says which of them the tests notice."""
