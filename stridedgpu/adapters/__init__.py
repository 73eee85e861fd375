"""Other libraries' declarations and memory, taken as they are: each module is for one library."""
