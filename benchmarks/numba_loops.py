"""The drawn cases as loops that a user of Numba writes. Without Numba, there are none."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from numba import njit
except ImportError:
    njit = None

Array = np.ndarray[Any, Any]


def _copied(view: Array, out: Array) -> None:
    out[:] = view


def _scaled(planes: Array, factor: np.float32, out: Array) -> None:
    for n in range(out.shape[0]):
        for c in range(out.shape[1]):
            for y in range(out.shape[2]):
                for x in range(out.shape[3]):
                    out[n, c, y, x] = np.float32(planes[n, c, y, x]) * factor


def _rows(table: Array, numbers: Array, out: Array) -> None:
    for i in range(len(numbers)):
        row = numbers[i]
        for j in range(table.shape[1]):
            out[i, j] = table[row, j]


def _elements(table: Array, numbers: Array, out: Array) -> None:
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            out[i, j] = table[i, numbers[i, j]]


def _runs(data: Array, numbers: Array, out: Array) -> None:
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            number = numbers[b]
            for c in range(out.shape[2]):
                out[a, b, c] = data[a, number, c]


def _column_elements(data: Array, numbers: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = data[numbers[i, j], j]


def _rows_put(numbers: Array, updates: Array, out: Array) -> None:
    for i in range(updates.shape[0]):
        row = numbers[i]
        for j in range(updates.shape[1]):
            out[row, j] = updates[i, j]


def _elements_put(numbers: Array, updates: Array, out: Array) -> None:
    for i in range(updates.shape[0]):
        for j in range(updates.shape[1]):
            out[i, numbers[i, j]] = updates[i, j]


def _crops(images: Array, origins: Array, out: Array) -> None:
    for n in range(out.shape[0]):
        y, x = origins[n, 0], origins[n, 1]
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                for c in range(out.shape[3]):
                    out[n, i, j, c] = images[n, y + i, x + j, c]


def _scaled_crops(images: Array, origins: Array, factor: np.float32, out: Array) -> None:
    for n in range(out.shape[0]):
        y, x = origins[n, 0], origins[n, 1]
        for c in range(out.shape[1]):
            for i in range(out.shape[2]):
                for j in range(out.shape[3]):
                    out[n, c, i, j] = images[n, y + i, x + j, c] * factor


def understands(*arrays: Array) -> bool:
    """Whether Numba is there, and computes with the elements on a CPU."""
    return njit is not None and all(array.dtype.kind != "f" or array.itemsize > 2 for array in arrays)


if njit is not None:
    copied, scaled = njit(_copied), njit(_scaled)
    rows, elements = njit(_rows), njit(_elements)
    checked_rows, checked_elements = njit(boundscheck=True)(_rows), njit(boundscheck=True)(_elements)
    runs, column_elements = njit(_runs), njit(_column_elements)
    rows_put, elements_put = njit(boundscheck=True)(_rows_put), njit(boundscheck=True)(_elements_put)
    crops, scaled_crops = njit(_crops), njit(_scaled_crops)
