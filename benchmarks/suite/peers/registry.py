"""Which peers are installed, for a kind of device; the others with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

from stridedgpu.values.errors import StridedGpuError

from .cupy_peer import CupyPeer
from .cv2_peer import Cv2Peer
from .jax_peer import JaxPeer
from .numpy_peer import NumpyPeer
from .nvmath_peer import NvmathPeer
from .peer import CannotDoError, Peer
from .torch_peer import CompiledTorchPeer, TorchPeer

__all__ = ["PEERS", "installed_peers"]

_MAKERS: Final[Mapping[str, tuple[str, Mapping[str, Callable[[], Peer]]]]] = MappingProxyType(
    {
        # name: the library to look for, and what makes the peer for "cpu" and for "cuda"
        "numpy": ("numpy", {"cpu": NumpyPeer}),
        "torch": ("torch", {"cpu": TorchPeer, "cuda": lambda: TorchPeer("cuda")}),
        "torch.compile": ("torch", {"cuda": lambda: CompiledTorchPeer("cuda")}),
        "cupy": ("cupy", {"cuda": CupyPeer}),
        "cv2": ("cv2", {"cpu": Cv2Peer}),
        "nvmath": ("nvmath", {"cuda": NvmathPeer}),
        "jax": ("jax", {"cpu": lambda: JaxPeer("cpu"), "cuda": lambda: JaxPeer("cuda")}),
    }
)

PEERS: Final = tuple(_MAKERS)
"""The names of all peers."""


def installed_peers(device: str, wanted: Sequence[str] | None = None) -> tuple[list[Peer], dict[str, str]]:
    """The peers for a device ("cpu" or "cuda:N"), imported, and why the others are not there, by name.

    `wanted` names those to take, None all that are installed. Raises `StridedGpuError` for an unknown name, and for one
    that was wanted and is not installed.
    """
    kind = device.partition(":")[0]
    found: list[Peer] = []
    absent: dict[str, str] = {}
    for name in wanted or ():
        if name not in _MAKERS:
            raise StridedGpuError(f"{name!r} is no peer; there are {', '.join(PEERS)}.")
    for name, (library, makers) in _MAKERS.items():
        if wanted is not None and name not in wanted:
            continue
        made = _made(library, makers.get(kind), kind)
        if isinstance(made, str):
            absent[name] = made
        else:
            found.append(made)
    missing = [name for name, reason in absent.items() if wanted is not None and reason.startswith("not installed")]
    if missing:
        raise StridedGpuError(f"{', '.join(missing)} cannot be compared with: not installed here.")
    return found, absent


def _made(library: str, maker: Callable[[], Peer] | None, kind: str) -> Peer | str:
    """The peer, or why there is none."""
    if maker is None:
        return f"not for {'a GPU' if kind == 'cuda' else 'the CPU'}"
    if find_spec(library) is None:
        return "not installed"
    try:
        return maker()
    except CannotDoError as error:
        return str(error)
    except ImportError as error:
        return f"cannot be imported: {error}"
