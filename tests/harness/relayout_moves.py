"""Relayouts on native loops: the kernel that is chosen, and its bits beside those of NumPy's loops."""

from __future__ import annotations

import numpy as np
from harness.fenced_memory import Fenced, lowest_at_zero
from harness.native_loops import can_run_here, run_items
from harness.plans import chosen_relayout

from stridedgpu.devices.cpu.native.relayout import plan_relayout
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.values.tensor_spec import TensorSpec


def moved_kernel(source_layout, target_layout, made, channel_axis=None, seed=3, words=None, filler=0):
    """The kernel that the policy chooses for a move; None where NumPy alone may do it.

    On a processor that runs the loops of the policy's target, it moves between fenced memories, and every byte is
    compared with NumPy's.
    """
    source_layout, target_layout = lowest_at_zero(source_layout), lowest_at_zero(target_layout)
    sides = [
        TensorSpec.of(layout, element, base_alignment=element.itemsize)
        for layout, element in ((source_layout, made.source), (target_layout, made.target))
    ]
    plan = chosen_relayout(*sides, made, channel_axis, filler=filler)
    walk = plan_relayout(plan.problem)
    if walk is None or not can_run_here():
        return walk and walk.kernel
    rng = np.random.default_rng(seed)
    source = Fenced(source_layout.span * made.source.itemsize, rng, at_end=seed % 2 == 0)
    if words is not None:
        source.bytes[:] = rng.choice(words, source_layout.span).view(np.uint8)
    target = Fenced((target_layout.span + filler) * made.target.itemsize, rng, at_end=seed % 3 == 0)
    expected = target.bytes.copy()
    run_items(plan, source.address, target.address, order=1 if seed % 5 else -1)
    NumpyRelayout(plan.problem)(source.bytes, expected)
    assert target.bytes.tobytes() == expected.tobytes(), " ".join(plan.describe())
    return walk.kernel
