"""A plan is a value: read for a GPU that is not there, pickled to a worker, run."""

import pickle

import numpy as np

import stridedgpu as sg

frames = sg.asarray(np.zeros((4, 16, 16, 3), np.uint8), dims="NHWC")
batch = sg.empty((4, 3, 16, 16), "float32", device="cpu")
plan: sg.RelayoutPlan = sg.plan_relayout(frames, batch, scale=1 / 255)
there = sg.plan_relayout(frames.desc, batch.desc, device="cuda")
words: str = there.explain()
loaded = pickle.loads(pickle.dumps(plan))
assert isinstance(loaded, sg.RelayoutPlan)
loaded(frames, batch)
assert min(plan.load_bytes, there.load_bytes) > 0
assert "float32" in words
