"""transformers' image processors, for the tests that have them as the oracle, and images to compare them on."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

from stridedgpu.adapters.image_processors.declaration import KINDS

from .torchvision_transforms import torchvision_transforms

__all__ = ["differences", "drawn_image", "original", "transformers_library"]

REASON = "the oracle is transformers 5"


def transformers_library() -> Any:
    """transformers; the test skips where it, torch or torchvision is missing."""
    torchvision_transforms()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("transformers", reason=REASON)
        if int(library.__version__.split(".")[0]) < 5:
            pytest.skip(REASON)
        library.logging.set_verbosity_error()
        return library


def original(name: str, backend: str, **options: Any) -> Any:
    """transformers' own processor of a class, by its name for torchvision.

    The test skips where torch's loops are those of another processor: of floats they have other bits, and without
    AVX2 torchvision makes floats of bytes before it resizes them.
    """
    if backend == "torchvision":
        capability = pytest.importorskip("torch", reason=REASON).backends.cpu.get_cpu_capability()
        if capability not in ("AVX2", "AVX512"):
            pytest.skip(f"the bits are those of torch's loops for AVX2 and AVX-512, and torch has {capability}")
    is_of_two = backend == "pil" and "torchvision" in KINDS[name].backends
    return getattr(transformers_library(), name + ("Pil" if is_of_two else ""))(**options)


def drawn_image(draw: np.random.Generator, least: int = 40, most: int = 420) -> np.ndarray:
    """An RGB image of random sizes: noise, magnified by a random whole factor, so that it has edges and flat parts."""
    height, width = (int(side) for side in draw.integers(least, most, 2))
    factor = int(draw.integers(1, 9))
    small = draw.integers(0, 256, (-(-height // factor), -(-width // factor), 3), dtype=np.uint8)
    return np.ascontiguousarray(small.repeat(factor, 0).repeat(factor, 1)[:height, :width])


def _as_numpy(value: Any) -> Any:
    """An array of NumPy's where it is one of another library; the bits of bfloat16, which NumPy lacks."""
    if "bfloat16" in str(getattr(value, "element", None) or getattr(value, "dtype", "")):
        torch = sys.modules["torch"]
        value = (value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)).view(torch.int16)
    return value.numpy() if hasattr(value, "numpy") else value


def differences(found: Any, wanted: Any, path: str = "") -> list[str]:
    """Where a result is not the wanted one: other types, shapes or bits."""
    found, wanted = (_as_numpy(value) for value in (found, wanted))
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray):
            return [f"{path} is a {type(found).__name__}"]
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            return [f"{path} is {found.dtype} {found.shape}, not {wanted.dtype} {wanted.shape}"]
        same = np.array_equal(*(np.ascontiguousarray(array).view(np.uint8) for array in (found, wanted)))
        return [] if same else [f"{path} differs in {(found != wanted).mean():.2%} of its values"]
    if hasattr(wanted, "keys"):
        if list(found) != list(wanted):
            return [f"{path} has the keys {list(found)}, not {list(wanted)}"]
        return [line for key in wanted for line in differences(found[key], wanted[key], f"{path}.{key}")]
    if isinstance(wanted, (list, tuple)):
        if len(found) != len(wanted):
            return [f"{path} has {len(found)} entries, not {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for place, pair in pairs for line in differences(*pair, f"{path}[{place}]")]
    return [] if found == wanted else [f"{path} is {found!r}, not {wanted!r}"]
