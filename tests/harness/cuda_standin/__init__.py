"""Real CuPy without a GPU: its binaries, pool, streams and compiler, over a CUDA runtime made of this process's memory.

    PYTHONPATH=tests python -m pytest -p harness.cuda_standin.plugin -m gpu tests

CuPy's runtime and driver modules hand their C functions to CuPy's other binaries as capsules. `seam` replaces these by
functions that call `runtime`, before CuPy binds to them. Device memory is memory that the host may not touch, work is
done when somebody waits, or at once (`streams`), and kernels are the project's own, compiled by g++ (`kernels`).
It shows what order, lifetime and the host's code do; of speed, alignment and races inside a kernel it shows nothing.
"""
