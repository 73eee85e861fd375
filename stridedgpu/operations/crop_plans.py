"""Crops planned once for a batch and one kind of images, and run with any of these and any windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stridedgpu.backends.gather_selection import gather_backend_named
from stridedgpu.errors import BindingError, LayoutError
from stridedgpu.foreign import foreign_operand
from stridedgpu.operand import Operand, share_memory
from stridedgpu.planning.crops import Crop, CropPlan, plan_crops, source_steps
from stridedgpu.planning.problem import Side

from .crops import CropRequest, check_samples, flips_of, origins_of, samples_of_batch
from .index_plans import needed_side, reach_of
from .planned import HasOperand, Planned, no_tensor

__all__ = ["PlannedCrops", "planned_crops"]


@dataclass(frozen=True, slots=True)
class PlannedCrops(Planned):
    """Crops that are planned once and run many times: `plan(sources, origins, out)`.

    They run on images of any sizes and row pitches, of the type, channels, and channel and column strides that they
    were planned for; where windows lie, and which are mirrored, is said at every call.
    """

    plan: CropPlan
    missing: str | None = None

    def __call__(
        self,
        sources: HasOperand | Sequence[HasOperand],
        origins: object,
        out: HasOperand,
        flip: object = None,
        stream: object = None,
    ) -> None:
        """Write one window of each image into `out`; the arguments are those of `gather_crops`.

        `sources` are a batch with axes N, C, H, W or images with axes C, H, W, all of them tensors. Raises before
        anything is written: `LayoutError` for another number of images, origins or flips, `BindingError` for images or
        an `out` of other types, strides, alignment or device than planned, an `out` that is read-only or shares memory
        with an image, `DeviceError` where the plan's device cannot be had.
        """
        self.check_runnable()
        plan = self.plan
        samples = _images(sources)
        count = plan.target.layout.sizes[0]
        if len(samples) != count:
            raise LayoutError(f"sources are {len(samples)} images; the plan is for {count}.")
        if not hasattr(out, "operand"):
            raise no_tensor(out=out)
        element, target = plan.conversion.source, out.operand
        check_samples(samples, len(plan.fill) // element.itemsize, element, plan.device, "the plan")
        target.check_fits("out", plan.target, plan.device)
        if target.buffer.readonly:
            raise BindingError("out is read-only.")
        if plan.target.owns_padding and not target.owns_padding:
            raise BindingError("out does not own its padding, which this plan may write; plan for this tensor instead.")
        for number, sample in enumerate(samples):
            if share_memory(sample, target):
                raise BindingError(f"out shares memory with sources[{number}].")
        lowest = [sample.layout.shifted(-sample.layout.first_offset) for sample in samples]
        if lowest and not plan.takes(source_steps(lowest)):
            raise BindingError(
                f"sources have channel and column strides {source_steps(lowest)}; the plan is for {plan.source_steps}."
            )
        places = origins_of(_operand_of(origins), count)
        crops = [Crop(*sample) for sample in zip(lowest, places, flips_of(flip, count), strict=True)]
        buffers = [(sample.buffer, sample.start_bytes) for sample in samples]
        backend = gather_backend_named(plan.device)
        backend.run_crops(plan, crops, buffers, target.buffer, target.start_bytes, stream)


def planned_crops(request: CropRequest, sources: Sequence[Side], out: Side, device: str) -> PlannedCrops:
    """The plan of crops from images like these into `out`.

    Raises `LayoutError` for an `out` of other sizes or type, or one that overlaps itself.
    """
    if out.layout.sizes != request.sizes:
        raise LayoutError(f"out has sizes {out.layout.sizes}; the result has sizes {request.sizes}.")
    if out.element != request.conversion.target:
        raise LayoutError(f"out holds {out.element}; the result is {request.conversion.target}.")
    if out.layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {out.layout}; write into a packed tensor.")
    widest, missing = reach_of(device)
    steps = source_steps([side.layout for side in sources])
    target = needed_side(out, widest)
    return PlannedCrops(plan_crops(target, steps, request.conversion, request.fill, device, widest), missing)


def _images(sources: HasOperand | Sequence[HasOperand]) -> list[Operand]:
    """The images of a batch or a list. Raises `LayoutError` for what has not their axes."""
    if not isinstance(sources, Sequence):
        if not hasattr(sources, "operand"):
            raise no_tensor(sources=sources)
        batch = sources.operand
        if batch.layout.ndim != 4:
            raise LayoutError(f"sources has sizes {batch.layout.sizes}; a batch has the axes N, C, H, W.")
        return samples_of_batch(batch)
    for number, source in enumerate(sources):
        if not hasattr(source, "operand"):
            raise no_tensor(**{f"sources[{number}]": source})
    images = [image.operand for image in sources]
    for number, image in enumerate(images):
        if image.layout.ndim != 3:
            raise LayoutError(f"sources[{number}] has sizes {image.layout.sizes}; an image has the axes C, H, W.")
    return images


def _operand_of(origins: object) -> Operand:
    """Origins as an operand: a tensor's, or a copy of what else holds numbers."""
    held = getattr(origins, "operand", None)
    return held if isinstance(held, Operand) else foreign_operand(origins)[0]
