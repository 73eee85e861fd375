"""DirectML's own C++ helper functions, compiled and run beside this library's.

The listing is Microsoft's and no part of this repository: the environment variable STRIDEDGPU_HELPER_LISTING names a
file with the text of https://learn.microsoft.com/windows/ai/directml/dml-helper-functions.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from math import prod
from pathlib import Path

import pytest

from stridedgpu.values.dtypes import DataType
from stridedgpu.values.strides import calc_buffer_tensor_size, calculate_strides

LISTING = os.environ.get("STRIDEDGPU_HELPER_LISTING")

pytestmark = [
    pytest.mark.skipif(not LISTING, reason="STRIDEDGPU_HELPER_LISTING does not name the text of DirectML's listing"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile DirectML's listing with"),
]

DESCRIPTORS = 20_000

# What Windows headers would declare. The enumerators have DirectML's values.
PROLOGUE = """
#include <array>
#include <cstdint>
#include <iostream>
using UINT = uint32_t;
using UINT64 = uint64_t;
#define _In_reads_(count)
#define _In_reads_opt_(count)
enum DML_TENSOR_DATA_TYPE { %s };
"""

# Each line in: type, has strides, rank, sizes, strides (0 when absent), order (0 NCHW, 1 NHWC), 4 sizes, 4 flags.
EPILOGUE = """
int main() {
    std::ios::sync_with_stdio(false);
    unsigned type, strided, rank, order;
    while (std::cin >> type >> strided >> rank) {
        UINT sizes[8] = {}, strides[8] = {};
        for (unsigned i = 0; i < rank; ++i) std::cin >> sizes[i];
        for (unsigned i = 0; i < rank; ++i) std::cin >> strides[i];
        std::array<uint32_t, 4> image;
        std::array<bool, 4> broadcast;
        std::cin >> order;
        for (auto& size : image) std::cin >> size;
        for (auto& flag : broadcast) std::cin >> flag;
        std::cout << DMLCalcBufferTensorSize(DML_TENSOR_DATA_TYPE(type), rank, sizes, strided ? strides : nullptr);
        for (auto stride : CalculateStrides(order ? Layout::NHWC : Layout::NCHW, image, broadcast))
            std::cout << ' ' << stride;
        std::cout << '\\n';
    }
}
"""


def extracted(text: str, start: str) -> str:
    """The declaration that begins with `start`, to the brace that closes it."""
    begin = text.index(start)
    depth = 0
    for place in range(text.index("{", begin), len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin : place + 1]
    raise AssertionError(f"no end of {start!r} in {LISTING}")


@dataclass(frozen=True)
class Descriptor:
    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    order: str
    image: tuple[int, ...]
    broadcast: tuple[bool, ...]

    @property
    def line(self) -> str:
        strides = self.strides or (0,) * len(self.sizes)
        numbers = [self.data_type, self.strides is not None, len(self.sizes), *self.sizes, *strides]
        numbers += [self.order == "NHWC", *self.image, *self.broadcast]
        return " ".join(str(int(number)) for number in numbers)


def descriptors() -> list[Descriptor]:
    """The same ones every time: from those that nothing wraps for to those that everything wraps for."""
    draw = random.Random(20_000)

    def number(bits: int) -> int:
        return max(1, draw.getrandbits(draw.randint(1, bits)))

    types = [type_ for type_ in DataType if type_.itemsize]  # the listing answers 0 for the 4-bit types
    made = []
    for _ in range(DESCRIPTORS):
        rank, bits = draw.randint(1, 8), draw.choice((4, 8, 16, 32))
        sizes = tuple(number(bits) for _ in range(rank))
        # A stride may be 0: broadcast.
        strides = tuple(number(bits) - draw.randint(0, 1) for _ in range(rank)) if draw.random() < 0.6 else None
        image = tuple(number(draw.choice((4, 12, 20))) for _ in range(4))
        broadcast = tuple(draw.random() < 0.3 for _ in range(4))
        made.append(Descriptor(draw.choice(types), sizes, strides, draw.choice(("NCHW", "NHWC")), image, broadcast))
    return made


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    """What the listing says of each descriptor: the buffer's bytes, then four strides."""
    text = Path(str(LISTING)).read_text(encoding="utf-8")
    enumerators = ", ".join(f"DML_TENSOR_DATA_TYPE_{type_.name} = {int(type_)}" for type_ in DataType)
    layout_enum = extracted(text, "enum class Layout") + ";"
    functions = [extracted(text, "inline UINT64 DMLCalcBufferTensorSize("), layout_enum]
    functions.append(extracted(text, "std::array<uint32_t, 4> CalculateStrides("))
    folder = tmp_path_factory.mktemp("listing")
    source, program = folder / "listing.cpp", folder / "listing"
    source.write_text("\n".join([PROLOGUE % enumerators, *functions, EPILOGUE]), encoding="utf-8")
    subprocess.run(["g++", "-std=c++17", "-O1", "-o", program, source], check=True, timeout=600)
    lines = "\n".join(descriptor.line for descriptor in descriptors())
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, timeout=600)
    return [[int(number) for number in line.split()] for line in run.stdout.splitlines()]


def test_buffer_sizes_equal_the_listing_unless_it_wraps(answers):
    equal = wrapped = 0
    for descriptor, (listed, *_) in zip(descriptors(), answers, strict=True):
        sizes, strides, itemsize = descriptor.sizes, descriptor.strides, descriptor.data_type.itemsize
        assert itemsize is not None
        if strides is None:
            elements, wraps = prod(sizes), prod(sizes) * itemsize + 3 >= 2**64
        else:
            last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
            elements, wraps = last + 1, last >= 2**32  # the listing sums the last element's index in 32 bits
        exact = (elements * itemsize + 3) // 4 * 4
        assert calc_buffer_tensor_size(descriptor.data_type, sizes, strides) == exact
        assert (listed == exact) == (not wraps)
        equal, wrapped = equal + (not wraps), wrapped + wraps
    assert equal + wrapped == DESCRIPTORS
    assert min(equal, wrapped) > DESCRIPTORS // 10


def test_strides_equal_the_listing_unless_it_wraps(answers):
    equal = wrapped = 0
    for descriptor, (_, *listed) in zip(descriptors(), answers, strict=True):
        image, broadcast = descriptor.image, descriptor.broadcast
        exact = []
        for letter, flag in zip("NCHW", broadcast, strict=True):
            inside = descriptor.order[descriptor.order.index(letter) + 1 :]
            stored = (image["NCHW".index(other)] for other in inside if not broadcast["NCHW".index(other)])
            exact.append(0 if flag else prod(stored))
        assert list(calculate_strides(descriptor.order, image, broadcast)) == exact
        wraps = max(exact) >= 2**32
        assert (listed == exact) == (not wraps)
        equal, wrapped = equal + (not wraps), wrapped + wraps
    assert equal + wrapped == DESCRIPTORS
    assert equal > DESCRIPTORS // 2
    assert wrapped > 100
