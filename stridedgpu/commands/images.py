"""The sample photographs of the command line."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from stridedgpu.preprocess.image_files import ImageError, ImageFile

SAMPLES = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
)


def sample_images() -> list[ImageFile]:
    """The photographs in scikit-image's wheel: no network, and scikit-image itself is not imported."""
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise ImageError(
            'the sample photographs come with scikit-image, which is not installed: pip install "stridedgpu[demo]".'
        )
    folder = Path(spec.origin).parent / "data"
    found = [ImageFile(folder / name, name) for name in SAMPLES if (folder / name).is_file()]
    if not found:
        raise ImageError(f"this scikit-image carries no photographs in {str(folder)!r}; name pictures of your own.")
    return found
