"""Nonsense for one argument at a time: it is taken for something, or refused in the library's own words."""

from types import SimpleNamespace

import numpy as np
import pytest
from harness.malformed_calls import OPERATIONS, Drawn, Scene, judged
from harness.spoiled_arguments import NONSENSE, Spoiled

import stridedgpu as sg

TITLES = (
    "None", "True", "-1", "0", repr(2**70), "2.5", "nan", "(1+2j)", "''", "'nonsense'", "b'1'", "()", "(-1, 2)",
    "(5, 5, 5)", "(0.5, 0.5)", "[1, [2]]", "[1]", "{'a': 1}", repr(slice(None)), "an object", "a function", "a type",
    "an array of two", "an array of text", "an array of objects", "an empty array", "an array of rank 0", "a frame",
    "a list of a frame", "a tensor", "a layout", "UINT4", "UNKNOWN",
)  # fmt: skip
"""Nonsense that no call allocates much memory for."""

DRAWS = 40
"""Draws of an operation, among which there is each of its functions and each set of arguments."""


class Session:
    """What binds, and states its inputs and outputs, as ONNX Runtime's sessions and bindings do."""

    def get_inputs(self):
        return [SimpleNamespace(name="x", type="tensor(double)", shape=[2, "many", None])]

    get_outputs = get_inputs

    def bind_input(self, *arguments):
        assert arguments[0] == "x"

    bind_output = bind_input


def bound(scene):
    tensor = sg.asarray(scene.array((2, 3, 4), "float64"))
    function = scene.pick(sg.iobinding.bind_input, sg.iobinding.bind_output)
    return function, {"binding": Session(), "name": "x", "tensor": tensor, "session": Session()}


def warmed(scene):
    def warmup(src, dst, **options):
        if not callable(src):  # a call to warm up raises errors of its own
            sg.warmup(src, dst, **options)

    picture = sg.asarray(scene.array((2, 4, 5, 3), "uint8"), dims="NHWC")
    return warmup, {"src": picture, "dst": scene.out((2, 3, 4, 5), "float32"), "scale": 1.0, "device": "cpu"}


CALLS = {**OPERATIONS, "bindings": bound, "warmup": warmed}


def drawn(name, draw):
    """A good call of an operation, and its memory."""
    scene = Scene(np.random.default_rng(draw))
    return *CALLS[name](scene), scene.guards


def outcome_of(name, draw, *nonsense):
    """What becomes of the call with nonsense in the place of some arguments."""
    function, arguments, guards = drawn(name, draw)
    arguments |= {each.name: each.value for each in nonsense}
    return judged(draw, Drawn(name, function, arguments, nonsense, guards))


LONGEST = (
    "Preprocess",
    "image_processor",
    "a step over frames",
    "gather_crops of frames",
    "letterbox of frames",
    "resize of frames",
    "video_processor",
)
"""Calls of many arguments and variants, which take as long as all other operations together."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONGEST else name for name in CALLS]
)
def test_nonsense_is_refused_in_our_own_words(name):
    seen, wrong = set(), []
    for draw in range(DRAWS):
        function, good, _ = drawn(name, draw)
        kinds = {(function.__qualname__, *sorted(good), argument): argument for argument in good}
        if seen.issuperset(kinds) or outcome_of(name, draw).result.startswith("LayoutError"):  # some do not go together
            continue
        for argument in (argument for kind, argument in kinds.items() if kind not in seen):
            outcomes = [outcome_of(name, draw, Spoiled(argument, title, NONSENSE[title]())) for title in TITLES]
            wrong += [f"{one.spoiled[0]}: {one.wrong}" for one in outcomes if one.wrong is not None]
        seen.update(kinds)
    assert seen
    assert not wrong, "\n".join(wrong)


def plans():
    """A plan of each kind, and the arguments that it runs on, by name."""
    picture, small = (
        sg.zeros((1, 3, 4, 6), "uint8", device="cpu", dims="NCHW"),
        sg.empty((1, 3, 2, 2), "uint8", device="cpu", dims="NCHW"),
    )
    out, indices, pairs = sg.empty((1, 3, 4, 6), "uint8", device="cpu"), sg.asarray([0]), sg.asarray([[0]])
    frame, colours = sg.Frame.over("nv12", bytearray(36), (4, 6)), sg.empty((3, 4, 6), "uint8", device="cpu")
    return {
        "relayout": (sg.plan_relayout(picture, out), {"src": picture, "out": out}),
        "gather": (sg.plan_gather(picture, indices, out=out), {"data": picture, "indices": indices, "out": out}),
        "scatter": (
            sg.plan_scatter_nd(picture, pairs, picture, out=out),
            {"data": picture, "indices": pairs, "updates": picture, "out": out},
        ),
        "crops": (
            sg.plan_gather_crops(picture, (2, 2), out=small),
            {"sources": picture, "origins": np.zeros((1, 2), np.int64), "out": small},
        ),
        "resize": (sg.plan_resize(picture, small), {"src": picture, "out": small}),
        "frame": (sg.plan_relayout(frame, colours), {"src": frame, "out": colours}),
    }


@pytest.mark.parametrize("kind", [sg.StridedTensor, sg.Frame])
@pytest.mark.parametrize("name", plans())
def test_a_plan_refuses_a_class_in_the_place_of_a_tensor(name, kind):
    plan, arguments = plans()[name]
    plan(*arguments.values())
    plan(*arguments.values())  # by addresses, once it has run
    for place in arguments:
        if place == "origins" or (name == "frame" and place == "src"):
            continue
        with pytest.raises(sg.ElementTypeError, match=f"^{place} is of type type; a plan runs on tensors"):
            plan(*({**arguments, place: kind}).values())


@pytest.mark.parametrize("channels", [[1], range(1, 2)])
def test_channels_beside_a_matrix_are_shown_as_numbers(channels):
    frame, matrix = sg.Frame.over("nv12", bytearray(36), (4, 6)), [[1, 0, 0]]
    for call in (
        lambda **options: sg.relayout(frame, **options),
        lambda **options: sg.resize(np.zeros((4, 6, 3), np.uint8), (2, 2), dims="HWC", **options),
    ):
        with pytest.raises(sg.LayoutError) as refused:
            call(matrix=matrix, channels=channels)
        assert str(refused.value).startswith("channels=(1,) and matrix= both choose channels")
