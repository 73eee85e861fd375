from typing import Any, Protocol

from .compiler import LoopError


class HasText(Protocol):
    def text(self, name: str) -> str: ...

    def __hash__(self) -> int: ...


def loop_of(kernel: Any) -> Any:
    raise LoopError("no native loop")


compiled = loop_of


def why_unavailable() -> str | None:
    return "gone"
