"""`Preprocess.from_torchvision`: the bits of torchvision's own transforms, and refusals of all others."""

from __future__ import annotations

import numpy as np
import pytest
from harness.torchvision_transforms import torchvision_transforms

import stridedgpu as sg

torch = pytest.importorskip("torch", reason="the oracle is torchvision")
Image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
older = torchvision_transforms()
v2 = pytest.importorskip("torchvision.transforms.v2")
presets = pytest.importorskip("torchvision.transforms._presets")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FLOAT = torch.float32
MODES = older.InterpolationMode


def photo(rng, height=None, width=None):
    sizes = rng.integers(40, 130, 2)
    return rng.integers(0, 256, (height or sizes[0], width or sizes[1], 3), dtype=np.uint8)


def check(transforms, step, photos, of=Image.fromarray):
    """The step's result of each image, and of all in one call, beside torchvision's."""
    given = [of(pixels) for pixels in photos]
    expected = [np.asarray(transforms(image)) for image in given]
    for image, same in zip(given, expected, strict=True):
        (result,) = step([image])
        assert (result.shape, result.dtype) == (same.shape, same.dtype)
        assert result.tobytes() == same.tobytes(), np.abs(result.astype(float) - same).max()
        assert step(image).tobytes() == same.tobytes()  # as the transforms are called
    for result, same in zip(step(given), expected, strict=True):
        assert result.tobytes() == same.tobytes()


CHAINS = {
    "ImageNet": lambda t: [t.Resize(64), t.CenterCrop(56), *floats(t), t.Normalize(MEAN, STD)],
    "a shorter side alone": lambda t: [t.Resize(31), *floats(t)],
    "a longest side": lambda t: [t.Resize(32, max_size=41), t.RandomHorizontalFlip(1), *floats(t)],
    "a longest side and a window": lambda t: [t.Resize(32, max_size=41), t.CenterCrop(20), t.PILToTensor()],
    "both sides": lambda t: [t.Resize((64, 70), interpolation=MODES.BICUBIC), *floats(t)],
    "one number for both": lambda t: [t.Resize([48]), t.CenterCrop((40, 47)), t.PILToTensor()],
    "bytes": lambda t: [t.Resize((64, 70), interpolation=MODES.LANCZOS), t.PILToTensor()],
    "a pad": lambda t: [t.Pad((3, 4), fill=(1, 2, 3)), t.CenterCrop((40, 41)), *floats(t)],
    "a pad of four": lambda t: [t.Resize((30, 31)), t.Pad([1, 2, 3, 4], fill=9), *floats(t), t.Normalize([0.5], [0.2])],
    **{
        f"a pad by {mode}": lambda t, mode=mode: [
            *(t.Resize((30, 31)), t.Pad((5, 4, 3, 2), padding_mode=mode), t.RandomHorizontalFlip(1)),
            *(*floats(t), t.Normalize(MEAN, STD)),
        ]
        for mode in ("reflect", "edge", "symmetric")
    },
    **{
        f"a pad by {mode}, cropped": lambda t, mode=mode: [
            *(t.Pad(30, padding_mode=mode), t.CenterCrop(40), t.PILToTensor()),
        ]
        for mode in ("reflect", "edge", "symmetric")
    },
    "a reflected pad of floats": lambda t: [*floats(t), t.Normalize(MEAN, STD), t.Pad(9, padding_mode="reflect")],
    "mirrored": lambda t: [t.CenterCrop(33), t.RandomHorizontalFlip(1.0), *floats(t)],
    "never mirrored": lambda t: [t.CenterCrop(33), t.RandomHorizontalFlip(0.0), *floats(t)],
    "smaller than the window": lambda t: [t.CenterCrop((71, 92)), *floats(t), t.Normalize(MEAN, STD)],
    "padded and smaller": lambda t: [t.Pad((1, 2), fill=0), t.CenterCrop((99, 76)), *floats(t)],
    "a smaller tensor": lambda t: [*floats(t), t.CenterCrop(95), t.Normalize(MEAN, STD), t.RandomHorizontalFlip(1)],
    "grey": lambda t: [t.Grayscale(), t.Resize((40, 30)), *floats(t), t.Normalize([0.5], [0.25])],
    "grey three times": lambda t: [t.Grayscale(3), t.Resize((40, 30)), *floats(t), t.Normalize(MEAN, STD)],
    "nearest": lambda t: [t.Resize((64, 70), interpolation=MODES.NEAREST), t.PILToTensor()],
    "exact nearest": lambda t: [t.Resize((64, 70), interpolation=MODES.NEAREST_EXACT), t.PILToTensor()],
    "box": lambda t: [t.Resize((21, 30), interpolation=MODES.BOX), t.PILToTensor()],
    "hamming": lambda t: [t.Resize((21, 30), interpolation=MODES.HAMMING), t.PILToTensor()],
    "windows of floats": lambda t: [*floats(t), t.Normalize(MEAN, STD), t.CenterCrop(31), t.RandomHorizontalFlip(1)],
    "a black pad of floats": lambda t: [*floats(t), t.Pad(2), t.CenterCrop(31), t.Normalize(MEAN, STD)],
}


def floats(t):
    """What makes floats of PIL images: an object each time."""
    return [t.PILToTensor(), t.ConvertImageDtype(FLOAT)] if t is older else [t.ToImage(), t.ToDtype(FLOAT, scale=True)]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("t", [older, v2], ids=["classic", "v2"])
def test_transforms_of_pil_images_have_the_bits_of_torchvision(t, name):
    transforms = t.Compose(CHAINS[name](t))
    step = sg.Preprocess.from_torchvision(transforms, device="cpu")
    rng = np.random.default_rng(len(name))
    check(transforms, step, [photo(rng, 80, 61), photo(rng), photo(rng)])


OTHERS = {
    "ToTensor": older.Compose([older.Resize(64), older.CenterCrop(56), older.ToTensor(), older.Normalize(MEAN, STD)]),
    "nested": older.Compose([older.Compose([older.Resize((64, 64))]), v2.Compose([v2.PILToTensor()])]),
    "modules": torch.nn.Sequential(older.Resize((64, 64)), v2.ToImage(), v2.Identity(), v2.ToPureTensor()),
    "a list": [older.CenterCrop(20), older.ToTensor()],
    "one transform": v2.PILToTensor(),
    "floats of 0..255": v2.Compose(
        [v2.ToImage(), v2.ToDtype(FLOAT), v2.CenterCrop(9), v2.Normalize(*[(90.0, 80, 70)] * 2)]
    ),
    "unscaled": v2.Compose([v2.RGB(), v2.ToImage(), v2.ToDtype(FLOAT), v2.CenterCrop(9)]),
    "bytes to bytes": v2.Compose([v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), v2.CenterCrop(9)]),
    "an interpolation by name": v2.Compose([v2.Resize((32, 33), interpolation="bicubic"), v2.PILToTensor()]),
    "an interpolation by number": v2.Compose([v2.Resize((32, 33), Image.Resampling.LANCZOS), v2.PILToTensor()]),
    "half": v2.Compose([older.CenterCrop(9), older.ToTensor(), v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)]),
    "weights": presets.ImageClassification(crop_size=56, resize_size=60),
    "weights by bicubic": presets.ImageClassification(crop_size=56, resize_size=60, interpolation=MODES.BICUBIC),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_makes_up_transforms(name):
    transforms = OTHERS[name]
    step = sg.Preprocess.from_torchvision(transforms, device="cpu")
    oracle = older.Compose(transforms) if isinstance(transforms, list) else transforms
    rng = np.random.default_rng(7)
    check(oracle, step, [photo(rng), photo(rng)])


def drawn_chain(rng, t):
    """Transforms in the order of a step, each there or not, with drawn arguments."""
    chain = []
    if rng.random() < 0.3:
        chain.append(t.Grayscale(int(rng.choice([1, 3]))))
    side = int(rng.integers(20, 90))
    word = MODES(str(rng.choice(["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])))
    size = int(side) if rng.random() < 0.5 else (side, int(rng.integers(20, 90)))
    chain.append(t.Resize(size, interpolation=word))
    if rng.random() < 0.5:
        chain.append(t.Pad([int(one) for one in rng.integers(0, 6, rng.choice([2, 4]))], fill=int(rng.integers(256))))
    chain.append(t.CenterCrop([int(one) for one in rng.integers(5, 21, 2)]))
    moves = [t.RandomHorizontalFlip(float(rng.integers(2)))]
    made = floats(t) if rng.random() < 0.8 else [t.PILToTensor()]
    if len(made) == 2 and rng.random() < 0.7:
        made.append(t.Normalize(*(0.8 * rng.random((2, 1)) + 0.1).tolist()))
    place = int(rng.integers(len(made) + 1))
    return t.Compose(chain + made[:place] + moves + made[place:])


@pytest.mark.parametrize("t", [older, v2], ids=["classic", "v2"])
@pytest.mark.parametrize("seed", range(12))
def test_drawn_transforms(t, seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        transforms = drawn_chain(rng, t)
        check(transforms, sg.Preprocess.from_torchvision(transforms, device="cpu"), [photo(rng), photo(rng)])


def tensor_of(pixels):
    """An image as a tensor of bytes (C, H, W)."""
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


ON_TENSORS = {
    "ImageNet": [v2.Resize(64), v2.CenterCrop(56), v2.ToDtype(FLOAT, scale=True), v2.Normalize(MEAN, STD)],
    "bicubic": [v2.Resize((64, 70), interpolation=MODES.BICUBIC)],
    "a longest side": [v2.Resize(32, max_size=41), v2.RandomHorizontalFlip(1)],
    "nearest": [v2.Resize((64, 218), interpolation=MODES.NEAREST), v2.CenterCrop(60)],
    "lanczos": [v2.Resize((20, 91), interpolation=MODES.LANCZOS), v2.CenterCrop(19), v2.RandomHorizontalFlip(1)],
    "a pad": [v2.Resize((30, 40)), v2.Pad((1, 2), fill=[3, 4, 5]), v2.CenterCrop((31, 30))],
    "a reflected pad": [v2.Resize((30, 40)), v2.Pad((1, 2, 9, 7), padding_mode="reflect"), v2.CenterCrop((31, 30))],
    "a symmetric pad": [v2.Pad(12, padding_mode="symmetric"), v2.ToDtype(FLOAT, scale=True)],
    "a pad of the edge": [v2.Resize((30, 40)), v2.Pad(50, padding_mode="edge"), v2.ToDtype(FLOAT, scale=True)],
    "older floats": [v2.Resize((30, 40)), older.ConvertImageDtype(FLOAT), older.Normalize(MEAN, STD)],
    "half": [v2.ToDtype(FLOAT, scale=True), v2.Normalize(MEAN, STD), v2.CenterCrop(9), v2.ToDtype(torch.float16)],
}


@pytest.mark.parametrize("before", ["tensor", "ToImage", "PILToTensor"])
@pytest.mark.parametrize("name", ON_TENSORS)
def test_transforms_of_tensors_have_the_bits_of_torchvision(name, before):
    """ATen's resize, for tensors of bytes and for PIL images that become tensors first."""
    chain = ON_TENSORS[name]
    rng = np.random.default_rng(len(name))
    photos = [photo(rng) for _ in range(4)]
    if before == "tensor":
        transforms = v2.Compose(chain)
        step = sg.Preprocess.from_torchvision(transforms, images="tensor", device="cpu")
        check(transforms, step, photos, tensor_of)
    else:
        transforms = v2.Compose([getattr(v2, before)(), *chain])
        check(transforms, sg.Preprocess.from_torchvision(transforms, device="cpu"), photos)


GREY_AS_RGB = {
    "first": [v2.RGB(), v2.Resize((40, 30)), v2.ToDtype(FLOAT, scale=True), v2.Normalize(MEAN, STD)],
    "behind a pad": [v2.Resize((20, 30)), v2.Pad(3, fill=7), v2.RGB(), v2.ToDtype(FLOAT, scale=True)],
    "behind Normalize": [v2.ToDtype(FLOAT, scale=True), v2.Normalize([0.5], [0.25]), v2.RGB(), v2.CenterCrop(9)],
}


@pytest.mark.parametrize("given", ["tensor", "array"])
@pytest.mark.parametrize("place", GREY_AS_RGB)
def test_rgb_makes_three_channels_of_one(place, given):
    rng = np.random.default_rng(5)
    grey = [photo(rng, 50, 61)[..., :1] for _ in range(3)]
    transforms = v2.Compose([*([v2.ToImage()] if given == "array" else []), *GREY_AS_RGB[place]])
    step = sg.Preprocess.from_torchvision(transforms, images="tensor" if given == "tensor" else "pil", device="cpu")
    check(transforms, step, grey, tensor_of if given == "tensor" else np.ascontiguousarray)
    assert step.channel_count == 3


def test_rgb_behind_grayscale_makes_three_channels_of_luma():
    transforms = v2.Compose([v2.Grayscale(), v2.Resize((40, 30)), v2.RGB(), v2.ToImage()])
    check(transforms, sg.Preprocess.from_torchvision(transforms, device="cpu"), [photo(np.random.default_rng(6))])


RANDOM = {
    "resized": lambda t: [t.RandomResizedCrop(40), t.RandomHorizontalFlip(), *floats(t), t.Normalize(MEAN, STD)],
    "ranges": lambda t: [t.RandomResizedCrop((30, 41), (0.3, 0.9), (0.9, 1.5), MODES.BICUBIC), *floats(t)],
    "padded": lambda t: [
        t.Resize((50, 50)),
        t.RandomCrop(48, padding=4, fill=7),
        t.RandomHorizontalFlip(0.3),
        *floats(t),
    ],
    "reflected": lambda t: [t.RandomCrop((30, 35), padding=9, padding_mode="reflect"), *floats(t)],
    "continued": lambda t: [t.Resize((20, 21)), t.RandomCrop(9, padding=14, padding_mode="symmetric"), *floats(t)],
    "window": lambda t: [t.RandomCrop((30, 35)), *floats(t)],
    "smaller": lambda t: [t.RandomCrop((70, 50), pad_if_needed=True, fill=7), t.RandomHorizontalFlip(), *floats(t)],
    "smaller, mirrored": lambda t: [
        t.RandomCrop((70, 50), pad_if_needed=True, padding_mode="reflect"),
        t.RandomHorizontalFlip(),
        *floats(t),
    ],
    "smaller, padded": lambda t: [
        t.RandomCrop((70, 50), padding=4, pad_if_needed=True, padding_mode="edge"),
        *floats(t),
    ],
    "only mirrored": lambda t: [t.Resize(40), t.CenterCrop(33), t.RandomHorizontalFlip(0.5), *floats(t)],
}


@pytest.mark.parametrize("t", [older, v2], ids=["classic", "v2"])
@pytest.mark.parametrize("name", RANDOM)
def test_random_transforms_are_torchvisions_with_the_choices_of_the_step(name, t):
    """The step's placements say what was drawn; torchvision does the same to the image."""
    chain = RANDOM[name](t)
    step = sg.Preprocess.from_torchvision(t.Compose(chain), seed=3, device="cpu")
    rng, keys = np.random.default_rng(5), list(range(12))
    photos = [photo(rng) for _ in keys]
    results = step(photos, keys)
    placements = step.placements([pixels.shape[:2] for pixels in photos], keys)
    assert len({placed.flip for placed in placements}) == (2 if "Flip" in repr(chain) else 1)
    functional = v2.functional  # takes what either keeps as an interpolation
    for pixels, placed, result in zip(photos, placements, results, strict=True):
        image = Image.fromarray(pixels)
        for transform in chain:
            kind = type(transform).__name__
            if kind == "RandomResizedCrop":
                top, left, bottom, right = map(int, placed.box)
                image = functional.resized_crop(
                    image, top, left, bottom - top, right - left, transform.size, transform.interpolation
                )
            elif kind == "RandomCrop":
                pad = int(np.max(transform.padding or 0))
                image = functional.pad(image, pad, fill=7, padding_mode=transform.padding_mode)
                lacks = [max(side - size, 0) for side, size in zip(placed.size[::-1], image.size, strict=True)]
                if transform.pad_if_needed:
                    image = functional.pad(image, lacks, fill=7, padding_mode=transform.padding_mode)
                row, column, _, width = placed.place
                if placed.flip:
                    column = placed.size[1] - width - column
                image = functional.crop(image, pad + lacks[1] - row, pad + lacks[0] - column, *placed.size)
            elif kind == "RandomHorizontalFlip":
                image = functional.hflip(image) if placed.flip else image
            else:
                image = transform(image)
        assert result.tobytes() == np.asarray(image).tobytes()


@pytest.mark.parametrize(
    "transforms",
    [
        [older.ToTensor(), older.Normalize(MEAN, STD), older.CenterCrop(50)],
        [older.Pad(2, fill=3), older.CenterCrop(50), older.ToTensor()],
        [older.Pad(2, padding_mode="edge"), older.CenterCrop(50), older.ToTensor()],
    ],
    ids=["behind Normalize", "beside another colour", "beside a border"],
)
def test_zeros_around_a_smaller_image_that_a_step_has_not_are_refused(transforms):
    step = sg.Preprocess.from_torchvision(transforms, device="cpu")
    rng = np.random.default_rng(0)
    check(older.Compose(transforms), step, [photo(rng, 60, 50)])
    with pytest.raises(sg.LayoutError, match="smaller than crop="):
        step([photo(rng, 40, 60)])


def mode_of_none(transform):
    """A transform with a mode of padding that torchvision has not."""
    transform.padding_mode = "wrap"
    return transform


REFUSED = [
    # transforms, what they are given, what the message says
    ([older.ColorJitter(), older.ToTensor()], "pil", "ColorJitter is no part of a step.*on the images before the step"),
    ([older.ToTensor(), older.RandomErasing()], "pil", "RandomErasing is no part.*on the result, behind the step"),
    (
        [v2.ToImage(), v2.GaussianBlur(3), v2.CenterCrop(3)],
        "pil",
        "GaussianBlur is no part.*a step of what is before it",
    ),
    ([older.Lambda(abs)], "pil", "Lambda is no part"),
    ([abs], "pil", "builtin_function_or_method is no part"),
    (
        [older.CenterCrop(3), older.Resize((4, 4))],
        "pil",
        "Resize comes behind CenterCrop.*put Resize before CenterCrop",
    ),
    ([older.RandomHorizontalFlip(1), older.Pad(3)], "pil", "Pad comes behind RandomHorizontalFlip"),
    ([older.Resize((4, 4)), older.Grayscale()], "pil", "Grayscale comes behind Resize"),
    ([older.RandomResizedCrop(4), older.CenterCrop(3)], "pil", "CenterCrop comes behind RandomResizedCrop"),
    ([older.ToTensor(), older.Resize((4, 4))], "pil", "Resize would compute with floats: put it before"),
    ([older.ToTensor(), older.Pad(2, fill=0.5)], "pil", "Pad fills with 0.5 beside floats"),
    ([older.ToTensor(), older.Normalize(MEAN, STD), older.Pad(2)], "pil", "Pad fills with 0 beside floats"),
    (
        [mode_of_none(older.Pad(2))],
        "pil",
        r"Pad\(padding_mode='wrap'\) is unknown; constant and reflect",
    ),
    ([v2.Pad(2, fill={Image.Image: 3})], "pil", "give one fill"),
    (
        [older.RandomCrop(3, padding=1, padding_mode="reflect", pad_if_needed=True)],
        "pil",
        r"RandomCrop\(pad_if_needed=True\) pads what is padded by 'reflect' again, by 'reflect'",
    ),
    ([older.Pad(2, fill=3), older.RandomCrop(3, pad_if_needed=True)], "pil", "padded by 3 again, by 0: a step"),
    ([older.Normalize(MEAN, STD)], "pil", "Normalize takes float32, and here it is given a PIL image"),
    ([older.PILToTensor(), older.Normalize(MEAN, STD)], "pil", "it is given a tensor of uint8: put ToDtype"),
    ([older.ToTensor(), *[older.Normalize(MEAN, STD)] * 2], "pil", "Normalize comes twice"),
    ([v2.ToDtype(FLOAT, scale=True)], "pil", "ToDtype converts tensors.*put ToImage\\(\\) before it"),
    ([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)], "pil", "float16\\) of uint8: bytes become float32"),
    ([v2.ToImage(), v2.ToDtype({torch.Tensor: FLOAT})], "pil", "give one type"),
    ([v2.Resize(None, max_size=50)], "pil", "Resize\\(size=None\\): a step resizes to both sides"),
    ([older.PILToTensor(), older.Resize((4, 4))], "pil", "torchvision.transforms.v2.Resize resizes bytes"),
    ([v2.ToImage(), v2.Resize((4, 4), antialias=False)], "pil", "antialias=True is reproduced"),
    ([v2.ToImage(), v2.Resize((4, 4), interpolation=MODES.NEAREST_EXACT)], "pil", "'nearest-exact'\\) of tensors"),
    ([v2.ToImage(), v2.Grayscale()], "pil", "Grayscale of tensors sums floats"),
    ([older.ToTensor()], "tensor", "ToTensor takes a PIL image, and here it is given a tensor: ToDtype"),
    ([older.PILToTensor()], "tensor", "PILToTensor takes a PIL image, and here it is given a tensor: leave it out"),
    ([presets.ImageClassification(crop_size=3)], "tensor", "ImageClassification resizes tensors as float32"),
    ([older.RandomResizedCrop(3), older.ToTensor()], "pil", "RandomResizedCrop chooses by chance.*give seed="),
    ([older.CenterCrop(3)], "array", "images='array' must be 'pil' or 'tensor'"),
]


@pytest.mark.parametrize("transforms, images, says", REFUSED, ids=[says for _, _, says in REFUSED])
def test_what_a_step_cannot_do_is_refused_with_what_to_do(transforms, images, says):
    with pytest.raises(sg.LayoutError, match=says):
        sg.Preprocess.from_torchvision(transforms, images=images)


class Resize(older.Resize):
    """A class of a user's own, which may do anything."""


def test_a_class_derived_from_a_transform_is_none_of_torchvisions():
    with pytest.raises(sg.LayoutError, match="Resize is no part of a step"):
        sg.Preprocess.from_torchvision([Resize(3)])


def test_further_options_are_the_steps():
    transforms = [older.Resize(32), older.CenterCrop(24), older.ToTensor()]
    step = sg.Preprocess.from_torchvision(
        transforms, column="image", dtype="float16", layout="NHWC", passes="vertical", seed=3, errors="skip"
    )
    assert (step.column, step.dtype, step.layout, step.passes) == ("image", "float16", "NHWC", "vertical")
    assert step.random_crop is False
    with pytest.raises(sg.LayoutError, match="crop=3 is what the transforms say: leave crop= out"):
        sg.Preprocess.from_torchvision(transforms, crop=3)
    with pytest.raises(TypeError, match="Preprocess has no argument size="):
        sg.Preprocess.from_torchvision(transforms, size=3)


ANNOTATED = {
    "resized": [v2.Resize((50, 67)), v2.RandomHorizontalFlip(1)],
    "a shorter side, cropped": [v2.Resize(40), v2.CenterCrop(33), v2.RandomHorizontalFlip(1)],
    "cropped": [v2.CenterCrop((31, 20))],
    "smaller than the window": [v2.CenterCrop(140)],
    "padded": [v2.Resize((218, 45)), v2.Pad((3, 4, 5, 6), fill=9), v2.RandomHorizontalFlip(1)],
    "by another filter": [v2.Resize((141, 90), interpolation=MODES.BICUBIC), v2.CenterCrop(77)],
}


@pytest.mark.parametrize("images", ["pil", "tensor"])
@pytest.mark.parametrize("name", ANNOTATED)
def test_masks_and_boxes_are_those_of_v2(name, images):
    """Masks to the bit, of images and of single objects; boxes to the last places of float32, clamped as by v2."""
    from torchvision import tv_tensors

    transforms = v2.Compose(ANNOTATED[name])
    rng = np.random.default_rng(len(name))
    for box_format in ("xyxy", "xywh", "cxcywh"):
        step = sg.Preprocess.from_torchvision(
            transforms, images=images, device="cpu", column="image", mask="mask", boxes="box", box_format=box_format
        )
        for count in (None, 3):
            # Around an image v2 moves boxes one pixel further than its own pixels where the difference is odd.
            pixels = photo(rng, 80, 96) if "smaller" in name else photo(rng)
            size = pixels.shape[:2]
            mask = rng.integers(0, 30000, size if count is None else (count, *size), dtype=np.int64)
            low = rng.uniform(-30, 60, (5, 2))
            corners = np.concatenate([low, low + rng.uniform(0, 90, (5, 2))], axis=1).astype(np.float32)
            boxes = v2.functional.convert_bounding_box_format(
                tv_tensors.BoundingBoxes(torch.from_numpy(corners), format="xyxy", canvas_size=size),
                new_format=box_format,
            )
            given = {
                "image": Image.fromarray(pixels) if images == "pil" else tensor_of(pixels),
                "mask": tv_tensors.Mask(torch.from_numpy(mask)),
                "box": boxes,
            }
            expected = transforms(given)
            made = step({key: [value] for key, value in given.items()})
            np.testing.assert_array_equal(made["mask"][0], expected["mask"].numpy())
            np.testing.assert_allclose(made["box"][0], expected["box"].numpy(), atol=2e-5, rtol=0)


def test_boxes_that_say_otherwise_what_they_are_are_refused():
    from torchvision import tv_tensors

    step = sg.Preprocess.from_torchvision([v2.CenterCrop(8)], column="image", boxes="box", device="cpu")

    def refuses(words, **stated):
        stated = {"format": "XYXY", "canvas_size": (20, 30), **stated}
        boxes = tv_tensors.BoundingBoxes(torch.ones(1, 4), **stated)
        with pytest.raises(sg.LayoutError, match=f"row 0 of column 'box': the boxes {words}"):
            step({"image": [np.zeros((20, 30, 3), np.uint8)], "box": [boxes]})

    refuses("are of the format 'xywh', and box_format='xyxy' is stated", format="XYWH")
    refuses("are of the format 'cxcywh'", format="CXCYWH")
    refuses(r"are of an image of \(30, 20\), and theirs has \(20, 30\)", canvas_size=(30, 20))
    refuses("have clamping_mode=None, and clamp_boxes=True is declared", clamping_mode=None)


def test_what_a_user_says_of_annotations_goes_before_the_transforms():
    chain = [v2.Resize(20), v2.CenterCrop(8)]
    step = sg.Preprocess.from_torchvision(
        chain, column=0, mask=1, boxes=2, clamp_boxes=False, mask_interpolation="pillow-nearest"
    )
    assert (step.clamp_boxes, step.mask_interpolation) == (False, "pillow-nearest")
    older_step = sg.Preprocess.from_torchvision([older.Resize(20), older.CenterCrop(8)], column=0, mask=1, boxes=2)
    assert (older_step.clamp_boxes, older_step.mask_interpolation) == (False, None)
