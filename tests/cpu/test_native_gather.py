"""Native gathers do what the NumPy path does, to the bit and to the byte, wherever memory and indices end."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from harness.fenced_memory import Fenced, lowest_at_zero
from harness.gather_walks import RUNS, VARIANTS, elements_of_rows, kernel_of, planned_as, side_of
from harness.index_oracle import INDEX_TYPES, MODES, limits
from harness.native_loops import CLASSES, each_class, needs_library, ordinary_policy, policy_with
from harness.profiles import examples
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.native import gather as native_gather, pool
from stridedgpu.devices.cpu.native.gather import GatherElements, RowsInRegisters, plan_gather
from stridedgpu.devices.cpu.native.index_check import native_index_check
from stridedgpu.devices.cpu.numpy_loops import gather as numpy_gather
from stridedgpu.devices.cpu.target import Target
from stridedgpu.problems.gather_problem import elements_problem, gather_problem, tuples_problem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.values.dtypes import element_type

pytestmark = needs_library


@pytest.fixture(scope="module", autouse=True)
def measured_thresholds():
    """Loops of all instruction sets of this processor, whose thresholds depend neither on its caches nor its cores."""
    with ordinary_policy():
        yield


seeds = st.integers(0, 2**32 - 1)
long_sizes = st.lists(st.sampled_from((1, 2, 3, 5, 8, 16, 17, 64, 67, 300)), min_size=1, max_size=2).map(tuple)
any_sizes = st.one_of(tensor_sizes(1, 4, max_size=6), long_sizes)
variants = pytest.mark.parametrize("variant", [*VARIANTS, *each_class.args[1]])


def fenced(side, rng, *, at_end):
    return Fenced(side.layout.span * side.element.itemsize, rng, at_end=at_end)


def run_items(problem, mode, dense, indexed, index, order):
    """Run a problem's kernel one item after another, forwards or, where the walk allows it, backwards."""
    walk = plan_gather(problem, mode)
    order = 1 if walk.in_order else order
    loop, fields = walk.loop()
    parameters = (ctypes.c_int64 * (1 + len(fields)))(index.address + walk.index_offset, *fields)
    ours, theirs = dense.address + walk.dense_offset, indexed.address + walk.indexed_offset
    reads, writes = (ours, theirs) if problem.scatters else (theirs, ours)
    for item in range(walk.items)[::order]:
        loop.alone(reads, writes, ctypes.addressof(parameters), item, item + 1)
    return walk.kernel


def check(problem, mode, seed, *, valid=True):
    """Pick between fenced memories by a native kernel and by NumPy; the kernel."""
    rng = np.random.default_rng(seed)
    sides = problem.dense, problem.indexed, problem.index
    dense, indexed, index = (fenced(side, rng, at_end=bool(seed >> n & 1)) for n, side in enumerate(sides))
    if valid:
        dtype = problem.index.element.name
        bounds = limits(dtype, min(entry.size for entry in problem.indexed_axes), mode)
        index.bytes[:] = rng.integers(*bounds, problem.index.layout.span, dtype, endpoint=True).view(np.uint8)
    written = indexed if problem.scatters else dense
    expected = written.bytes.copy()
    kernel = run_items(problem, mode, dense, indexed, index, 1 if seed % 2 else -1)
    if valid:
        operands = (dense.bytes, expected) if problem.scatters else (expected, indexed.bytes)
        numpy_gather.NumpyGather(replace(problem, mode=mode))(*operands, index.bytes)
        assert written.bytes.tobytes() == expected.tobytes(), kernel
    return kernel


@st.composite
def problems(draw):
    """Problems of every kind, with any layout of every operand, and a mode."""
    element, index_type, mode = draw(element_types()), draw(st.sampled_from(INDEX_TYPES)), draw(st.sampled_from(MODES))
    kind = draw(st.sampled_from(("slices", "elements", "tuples")))
    scatters = kind != "slices" and draw(st.booleans())
    mode = "raise" if scatters else mode
    sizes = draw(any_sizes)
    indexed = side_of(draw(layouts_of(sizes, broadcast=not scatters)), element)
    axis = draw(st.integers(0, len(sizes) - 1))
    few = tensor_sizes(0, 2, max_size=300, max_elements=600)
    if kind == "slices":
        index_sizes = draw(few)
        dense_sizes = (*sizes[:axis], *index_sizes, *sizes[axis + 1 :])
    elif kind == "elements":
        index_sizes = dense_sizes = tuple(
            draw(st.integers(1, 300 if at == axis and len(sizes) < 3 else size)) for at, size in enumerate(sizes)
        )
    else:
        length = draw(st.integers(1, len(sizes)))
        between = draw(few)
        index_sizes, dense_sizes = (*between, length), (*between, *sizes[length:])
    index = side_of(draw(layouts_of(index_sizes)), index_type)
    dense = side_of(draw(layouts_of(dense_sizes, broadcast=scatters)), element)
    if kind == "slices":
        return gather_problem(indexed, index, dense, axis), mode
    if kind == "elements":
        return elements_problem(indexed, index, dense, axis, scatters=scatters), mode
    return tuples_problem(indexed, index, dense, 0, scatters=scatters), mode


@variants
@settings(max_examples=examples(150))
@given(case=problems(), seed=seeds)
def test_bits(variant, case, seed):
    with planned_as(variant):
        check(*case, seed)


@settings(max_examples=examples(50))
@given(case=problems(), seed=seeds)
def test_no_index_leads_outside_whatever_it_is(case, seed):
    """Indices may change after they were looked at: the fences stop whoever follows one that is wrong."""
    check(*case, seed, valid=False)


@variants
@pytest.mark.parametrize("nbytes", RUNS)
def test_runs_of_every_length(variant, nbytes):
    # Two chunks of indices, and fewer than a group of runs.
    count = 520 if nbytes <= 256 else 20
    data, index = side_of(Layout((30, nbytes)), "uint8"), side_of(Layout((count,)), "int32")
    with planned_as(variant):
        problem = gather_problem(data, index, side_of(Layout((count, nbytes)), "uint8"), 0)
        check(problem, "raise", nbytes)
        pitched = side_of(Layout((count, nbytes), (nbytes + 3, 1)), "uint8")
        check(gather_problem(data, index, pitched, 0), "raise", nbytes)


@variants
@settings(max_examples=examples(100))
@given(st.data())
def test_elements_in_rows_of_any_width(variant, data):
    """Short rows share vectors: every width, and indices along either axis, of a matrix or of a batch of them."""
    element, index_type = (
        data.draw(st.sampled_from(("uint8", "float16", "float32", "int64"))),
        data.draw(st.sampled_from(INDEX_TYPES)),
    )
    width, height, axis = (
        data.draw(st.integers(1, 70)),
        data.draw(st.integers(1, 60)),
        data.draw(st.sampled_from((1, 2))),
    )
    sizes = data.draw(st.sampled_from((1, 3))), height, width
    layout = data.draw(st.sampled_from((Layout(sizes), Layout((sizes[0], width, height)).permuted((0, 2, 1)))))
    if data.draw(st.booleans()):
        layout = layout.sliced((slice(None), slice(None, None, -1)))
    index, dense = side_of(Layout(sizes), index_type), side_of(Layout(sizes), element)
    problem = elements_problem(side_of(layout, element), index, dense, axis, scatters=False)
    mode, seed = data.draw(st.sampled_from(MODES)), data.draw(seeds)
    with planned_as(variant):
        check(problem, mode, seed)
        check(problem, mode, seed, valid=False)


@pytest.mark.parametrize("item", [64, 4096], ids=["small items", "large items"])
@settings(max_examples=examples(150))
@given(data=st.data(), seed=seeds)
def test_scattered_rows_of_any_width(item, data, seed):
    """Of updates of one element the last remains, in any order of items."""
    element = data.draw(st.sampled_from(("uint8", "float16", "float32", "int64")))
    index_type = data.draw(st.sampled_from(INDEX_TYPES))
    width, height = data.draw(st.sampled_from((1, 2, 3, 7, 8, 10, 33, 70, 500, 1000))), data.draw(st.integers(1, 40))
    size, batch = data.draw(st.sampled_from((1, 2, 9, 100, 1000))), data.draw(st.sampled_from((1, 3)))
    layout = Layout((batch, height, size), (height * (size + 5), size + data.draw(st.sampled_from((0, 5))), 1))
    if data.draw(st.booleans()):
        turned = data.draw(st.sampled_from((1, 2)))
        layout = layout.sliced(tuple(slice(None, None, -1 if axis == turned else None) for axis in range(3)))
    sizes = Layout((batch, height, width))
    numbers = Layout(sizes.sizes, (0, 0, 1)) if (alike := data.draw(st.booleans())) else sizes
    problem = elements_problem(
        side_of(layout, element), side_of(numbers, index_type), side_of(sizes, element), 2, scatters=True
    )
    with policy_with(gather={"item_bytes": range(item, item + 1)}):
        kernel = check(problem, "raise", seed)
        check(problem, "raise", seed, valid=False)
    if height >= 64 / width and not alike:
        assert isinstance(kernel, GatherElements)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40])
@pytest.mark.parametrize("element", ["uint8", "float16", "float32", "int64"])
def test_few_columns_of_many_rows(element, count):
    data, dense = side_of(Layout((70, 9), (11, 1)), element), side_of(Layout((70, count), (count + 1, 1)), element)
    with planned_as("single loads"):
        for mode in MODES:
            check(gather_problem(data, side_of(Layout((count,)), "int64"), dense, 1), mode, count)


permutes = pytest.mark.skipif(
    not CLASSES["AVX-512 VBMI"].runs_on(Target.here()), reason="AVX-512 permutes by variable positions"
)


@permutes
@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("element", ["uint8", "float16", "float32", "int64"])
def test_rows_fill_any_number_of_registers(element, index_type):
    """Rows that end with a register, begin the next one or leave some of it, as the fences at their end show."""
    lanes = 64 // element_type(element).itemsize
    with planned_as("rows in registers"):
        for registers in (1, 2, 3, 4, 5, 8, 9, 15, 16):
            for size in (lanes * registers, lanes * (registers - 1) + 1, lanes * registers - lanes // 2):
                problem = elements_of_rows(element, index_type, 3, size, lanes + 3, pitch=registers % 3)
                for mode in ("raise", "clip"):
                    kernel = check(problem, mode, registers)
                    assert isinstance(kernel, RowsInRegisters)
                    assert (kernel.registers, kernel.grouped) == (registers, False)
                check(problem, "clip", 2 * registers, valid=False)
        assert not isinstance(
            kernel_of(elements_of_rows(element, index_type, 3, 16 * lanes + 1, lanes)), RowsInRegisters
        )


@permutes
@settings(max_examples=examples(100))
@given(st.data())
def test_short_rows_share_registers(data):
    """Groups of rows, with gaps between them, of other sizes than widths, and one that is moved back to the end."""
    element, index_type = (
        data.draw(st.sampled_from(("uint8", "float16", "float32", "int64"))),
        data.draw(st.sampled_from(INDEX_TYPES)),
    )
    lanes = 64 // element_type(element).itemsize
    width, size = data.draw(st.integers(1, lanes - 1)), data.draw(st.integers(1, 30))
    count, pitch = data.draw(st.integers(-(-lanes // width), 200)), data.draw(st.integers(0, 3))
    problem = elements_of_rows(element, index_type, count, size, width, pitch=pitch)
    mode, seed = data.draw(st.sampled_from(("raise", "clip"))), data.draw(seeds)
    with planned_as("rows in registers"):
        kernel = check(problem, mode, seed)
        check(problem, mode, seed, valid=False)
    assert not isinstance(kernel, RowsInRegisters) or kernel.grouped


@permutes
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
@pytest.mark.parametrize("gap", [0, 1], ids=["adjacent", "with gaps"])
@settings(max_examples=examples(150))
@given(data=st.data())
def test_rows_with_the_same_indices_share_their_positions(parts, gap, data):
    """Columns of a table by number: of short rows and long ones, with gaps between them, forward and backward."""
    element, index_type = (
        data.draw(st.sampled_from(("uint8", "float16", "float32", "int64"))),
        data.draw(st.sampled_from(INDEX_TYPES)),
    )
    width, size, count = (data.draw(st.integers(1, most)) for most in (150, 100, 80))
    pitch, batch = data.draw(st.integers(0, 3)), data.draw(st.sampled_from((1, 2)))
    step, row = parts + gap, (parts + gap) * (size + pitch)
    table = Layout((batch, count, size, parts), (count * row, row, step, 1))
    if data.draw(st.booleans()):
        table = table.sliced((slice(None), slice(None, None, -1)))
    index, dense = side_of(Layout((width,)), index_type), side_of(Layout((batch, count, width, parts)), element)
    problem = gather_problem(side_of(table, element), index, dense, 2)
    mode, seed = data.draw(st.sampled_from(MODES)), data.draw(seeds)
    with planned_as("rows in registers"):
        kernel = check(problem, mode, seed)
        check(problem, mode, seed, valid=False)
    if isinstance(kernel, RowsInRegisters):
        assert kernel.repeated == (count * batch > 1)
        assert kernel.parts == (parts if kernel.run == element_type(element).itemsize else 1)


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize("strides", [(1000, 1), (1, 50), (2000, -2), (0, 1), (1, 0)], ids=str)
def test_a_native_look_finds_every_bad_index(index_type, strides):
    layout = lowest_at_zero(Layout((50, 1000), strides))
    rule = IndexRule(side_of(layout, index_type), ((0, 7),))
    numbers = np.zeros(layout.span, index_type)
    address, within = numbers.ctypes.data, native_index_check(rule)
    assert within(address)
    info = np.iinfo(index_type)
    wrong = (7, info.max, *((-8, info.min) if info.min else ()))
    for count, place in enumerate(layout.offset_of((row, column)) for row in (0, 23, 49) for column in (0, 501, 999)):
        numbers[place] = wrong[count % len(wrong)]
        assert not within(address)
        numbers[place] = 6 if not info.min else -7
        assert within(address)


@pytest.mark.parametrize("rows, locked", [(50, True), (50, False), (2000, True)], ids=["brief", "no lock", "long"])
@pytest.mark.parametrize("mode", ["clip", "raise"])
def test_callers_at_once_have_indices_of_their_own(monkeypatch, rows, locked, mode):
    monkeypatch.setattr(native_gather, "runs_alone", lambda: locked)
    table = np.arange(1000 * 24, dtype=np.float32).reshape(1000, 24)
    data = sg.asarray(table)

    def gathers(seed):
        numbers = np.random.default_rng(seed).integers(0, 1000, rows)
        indices, out = sg.asarray(numbers), sg.empty((rows, 24), "float32")
        for _ in range(50):
            plan(data, indices, out)
            if not np.array_equal(out.numpy(), table[numbers]):
                return False
            numbers += 1
            numbers %= 1000
        return True

    plan = sg.plan_gather(data, sg.zeros((rows,), "int64"), mode=mode, out=sg.empty((rows, 24), "float32"))
    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(gathers, range(8)))


def test_a_check_that_another_thread_interrupts_keeps_its_own_status(monkeypatch):
    """Another check of the same rule runs between the loop of this one and the look at its status."""
    rule = IndexRule(side_of(Layout((5,)), "int64"), ((0, 7),))
    numbers = [np.full(5, number) for number in (3, 9)]
    good, bad = (array.ctypes.data for array in numbers)
    made, interrupting = pool.moving_function, []

    def interrupted(*arguments, **options):
        alone = made(*arguments, **options)

        def run(*places):
            alone(*places)
            if interrupting:
                assert interrupting.pop()(good)

        return run

    monkeypatch.setattr(pool, "moving_function", interrupted)
    within = native_index_check(rule)
    for _ in range(2):
        assert within(good)
        interrupting.append(within)
        assert not within(bad)


def test_a_wrong_index_does_not_spoil_the_next_call():
    data, out = sg.zeros((7, 5), "float32"), sg.empty((3, 5), "float32")
    plan = sg.plan_gather(data, sg.zeros((3,), "int64"), out=out)
    for last in (7, 6, -8, -7):
        indices = sg.asarray(np.array([0, 1, last]))
        if last in {7, -8}:
            with pytest.raises(IndexError, match=str(last)):
                plan(data, indices, out)
        else:
            plan(data, indices, out)


def test_sizes_beyond_32_bits():
    data = sg.asarray(np.arange(3, dtype=np.uint8)).broadcast_to((2**40, 3)).operand.spec
    index = side_of(Layout((2,)), "int64")
    problem = gather_problem(data, index, side_of(Layout((2, 3)), "uint8"), 0)
    rng = np.random.default_rng(0)
    sides = [fenced(side, rng, at_end=True) for side in (problem.dense, data, index)]
    sides[2].bytes.view(np.int64)[:] = 2**40 - 1, -(2**40)
    run_items(problem, "raise", *sides, 1)
    assert sides[0].bytes.reshape(2, 3).tolist() == [sides[1].bytes.tolist()] * 2
