"""What indices mean, by Python's integers: which to draw, the places they name, and GatherND by its definition."""

from __future__ import annotations

import numpy as np
from harness.guarded_memory import seeds
from harness.strategies import layouts_of

import stridedgpu as sg

INDEX_TYPES = ("int32", "int64", "uint32", "uint64")
MODES = ("raise", "clip", "wrap", "deferred")


def indices_within(draw, sizes, least, most, dtype, layout=None):
    """A tensor of indices from `least` to `most`, of any layout, and its values."""
    layout = draw(layouts_of(sizes)) if layout is None else layout
    count = layout.offset + 1 if not layout.span else layout.first_offset + layout.span
    rng = np.random.default_rng(draw(seeds))
    memory = rng.integers(least, most, count, dtype, endpoint=True)
    tensor = sg.StridedTensor(memory, layout, dtype)
    return tensor, tensor.numpy()


def resolved(values, size, mode):
    """The places along an axis that indices mean, with Python's integers."""
    if mode == "wrap":
        places = [value % size for value in values.ravel().tolist()]
    elif mode == "clip":
        places = [min(max(value, 0), size - 1) for value in values.ravel().tolist()]
    else:
        places = [value + size if value < 0 else value for value in values.ravel().tolist()]
    return np.array(places, np.int64).reshape(values.shape)


def limits(dtype, size, mode):
    """The least and most index to draw: valid ones, or, where the mode makes them so, any that the type holds."""
    if mode in ("clip", "wrap"):
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -size if dtype.startswith("i") else 0, size - 1


def gather_nd_by_definition(data, indices, batch_dims):
    """ONNX GatherND, one tuple after another."""
    result = np.empty((*indices.shape[:-1], *data.shape[batch_dims + indices.shape[-1] :]), data.dtype)
    for at in np.ndindex(indices.shape[:-1]):
        result[at] = data[(*at[:batch_dims], *indices[at].tolist())]
    return result
