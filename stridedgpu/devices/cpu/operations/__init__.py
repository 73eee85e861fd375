"""How the CPU does each operation: the NumPy loops and the compiled ones, by the name of the operation.

`devices/cpu/prepared.py` imports a module when its first problem comes, and a module the compiler's when loops compile.
"""
