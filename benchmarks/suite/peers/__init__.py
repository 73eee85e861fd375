"""The libraries that workloads are timed beside, one a module; none is imported unless it is installed."""
