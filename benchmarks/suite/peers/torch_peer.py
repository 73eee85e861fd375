"""PyTorch: `copy_` between permuted views, expressions, `index_select`; eager, and compiled on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.suite.work import Array, CropWork, Move, Pick, Work
from benchmarks.suite.workloads import Crops, Relayout
from stridedgpu.devices.cpu.thread_count import get_num_threads

from .peer import Call, CannotDoError, factors, in_place

__all__ = ["CompiledTorchPeer", "TorchPeer"]


class TorchPeer:
    """PyTorch in eager mode, with as many threads as the library has."""

    name = "torch"
    waits = False

    def __init__(self, device: str = "cpu") -> None:
        """Import PyTorch; `device` is "cpu" or "cuda". Raises `CannotDoError` where this PyTorch does not have it."""
        self._torch: Any = import_module("torch")
        if device == "cuda" and not self._torch.cuda.is_available():
            raise CannotDoError("this PyTorch has no device 'cuda'")
        self._torch.set_num_threads(get_num_threads())
        self.version = str(self._torch.__version__)

    def call(self, work: Work) -> Call:
        """The work, ready to be done."""
        if isinstance(work, Move):
            return self._padded(work) if work.channels is not None else self._moved(work)
        return self._picked(work) if isinstance(work, Pick) else self._cropped(work)

    def host(self, work: Work, result: Any) -> Array:  # noqa: ARG002 - its axes are canonical
        """A tensor's values, on the host."""
        array: Array = result.cpu().numpy()
        return array

    def _of(self, tensor: object) -> Any:
        return self._torch.from_dlpack(tensor)

    def _compiled(self, function: Callable[..., object]) -> Callable[..., object]:
        """The function as it is: eager."""
        return function

    def _moved(self, work: Move) -> Call:
        source, target, workload = self._of(work.source), self._of(work.target), work.workload
        if workload.call == "allocating":
            make = self._compiled(lambda values: values.contiguous())
            return lambda: make(source)
        if workload.normalised is None:
            move = self._compiled(lambda values, into: into.copy_(values))
        else:
            scale, bias = self._factors(workload, target.device)
            move = self._compiled(lambda values, into: into.copy_(self._normalised(values, scale, bias)))
        return in_place(move, source, target)

    def _padded(self, work: Move) -> Call:
        source, workload = self._of(work.source), work.workload
        pad = self._torch.nn.functional.pad
        dtype = getattr(self._torch, workload.target_type)
        extra = (work.channels or 0) - source.shape[1]
        scale, bias = self._factors(workload, source.device)

        def padded(values: Any) -> Any:
            pixels = self._normalised(values, scale, bias).to(dtype).permute(0, 2, 3, 1)
            return pad(pixels, (0, extra)).permute(0, 3, 1, 2)

        make = self._compiled(padded)
        return lambda: make(source)

    def _picked(self, work: Pick) -> Call:
        data, indices, target = (self._of(tensor) for tensor in (work.data, work.indices, work.target))
        pick = self._compiled(lambda rows, chosen, into: self._torch.index_select(rows, 0, chosen, out=into))
        return in_place(pick, data, indices, target)

    def _cropped(self, work: CropWork) -> Call:
        frames, target = self._of(work.frames), self._of(work.target)
        scale, bias = self._factors(work.workload, target.device)
        height, width = work.size
        places = [(int(top), int(left), bool(flip)) for (top, left), flip in zip(work.origins, work.flips, strict=True)]

        def crop(images: Any, into: Any) -> Any:
            windows = []
            for number, (top, left, flip) in enumerate(places):
                window = images[number % len(images), :, top : top + height, left : left + width]
                windows.append(window.flip(2) if flip else window)
            return into.copy_(self._normalised(self._torch.stack(windows), scale, bias))

        made = self._compiled(crop)
        return in_place(made, frames, target)

    def _factors(self, how: Relayout | Crops, device: object) -> tuple[Any, Any]:
        found = factors(how)
        if found is None:
            return None, None
        scale, bias = (self._torch.from_numpy(values).to(device) for values in found)
        return scale, None if how.bias is None else bias

    @staticmethod
    def _normalised(values: Any, scale: Any, bias: Any) -> Any:
        if scale is None:
            return values
        planes = values.float().mul_(scale)
        return planes if bias is None else planes.add_(bias)


class CompiledTorchPeer(TorchPeer):
    """PyTorch through `torch.compile`, which fuses casts and arithmetic into one kernel."""

    name = "torch.compile"

    def __init__(self, device: str) -> None:
        """As `TorchPeer`."""
        super().__init__(device)
        self._workload: object = None

    def call(self, work: Work) -> Call:
        """The work, compiled at its first call. Raises `CannotDoError` for crops: their places are compiled in.

        What was compiled for another workload is forgotten: from the ninth kind of arguments on, PyTorch would run a
        function as it is.
        """
        if isinstance(work, CropWork):
            raise CannotDoError("would compile every set of origins anew")
        if work.workload is not self._workload:
            self._torch.compiler.reset()
            self._workload = work.workload
        return super().call(work)

    def _compiled(self, function: Callable[..., object]) -> Callable[..., object]:
        compiled: Callable[..., object] = self._torch.compile(function, dynamic=False)
        return compiled
