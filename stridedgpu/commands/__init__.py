"""The command line's commands, one a module, and what they read, write and print with."""
