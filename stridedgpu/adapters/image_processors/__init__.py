"""The image processors of transformers, to the bit: declarations, sizes, inputs, arithmetic, and what is returned."""
