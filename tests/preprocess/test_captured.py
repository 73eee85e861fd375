"""A captured step between its graph and its images, without a GPU: the records of a graph move with the images."""

from __future__ import annotations

from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.preprocess.captured import CapturedPreprocess


class Graph:
    """A graph that notes what it is asked for."""

    has_records = True

    def __init__(self) -> None:
        self.moves: list[list[int]] = []
        self.rewrites = self.replays = 0

    def move(self, distances: np.ndarray[Any, Any]) -> bool:
        self.moves.append(distances.tolist())
        return True

    def rewrite(self, run: object) -> None:
        self.rewrites += 1

    def replay(self) -> None:
        self.replays += 1


def captured(images: Any, keys: object, seed: int | None) -> tuple[CapturedPreprocess, Graph]:
    """A step that was captured with these images."""
    step, graph = object.__new__(CapturedPreprocess), Graph()
    step._step = SimpleNamespace(seed=seed, window=(4, 4), resizes=True, dims="NHWC")
    step._worker = SimpleNamespace(device="cpu")
    step._calls, step._graph, step.result = Lock(), graph, SimpleNamespace(operand=None)
    step._is_list, step._count = isinstance(images, list), len(images)
    step._images, step._keys = images, keys
    return step, graph


def batch() -> sg.StridedTensor:
    return sg.zeros((2, 3, 8, 8), "uint8", device="cpu")


@pytest.mark.parametrize("make", [batch, lambda: [*batch()]], ids=["a batch", "a list"])
def test_images_elsewhere_move_the_records_by_their_distances(make):
    first, second = make(), make()
    step, graph = captured(first, None, seed=None)
    step(second)
    wanted = [new.buffer.address - old.buffer.address for new, old in zip(second, first, strict=True)]
    assert (graph.moves, graph.rewrites, graph.replays) == ([wanted], 0, 1)
    assert step._images is second or step._images == second


def test_images_of_another_layout_and_drawn_windows_write_the_records_anew():
    step, graph = captured(batch(), None, seed=None)
    step(sg.zeros((2, 3, 8, 8), "uint8", layout="NHWC", device="cpu"))
    assert (graph.moves, graph.rewrites) == ([], 1)
    step, graph = captured(batch(), [1, 2], seed=7)
    step(batch(), [3, 4])
    assert (graph.moves, graph.rewrites, step._keys) == ([], 1, [3, 4])
