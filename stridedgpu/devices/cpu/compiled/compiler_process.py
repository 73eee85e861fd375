"""The compiler's own process: LLVM text comes in, object files go out.

    python -I -S compiler_process.py FOLDER SECONDS     the folder that has llvmlite in it; the most time of one module

LLVM ends its process where it meets what it cannot translate, or has no memory left; here that is nobody else's. Its
library of 171 MiB is in this process alone, too. The process ends when its caller does, or after a time without work;
and by SIGVTALRM when LLVM has worked on one module for too long, as it would for hours where it combines some shuffles.

A request is a line `KIND TRIPLE CPU FEATURES LENGTH` with so many bytes of text behind it, where KIND is "object" or
"assembly". An answer is a line `ok LENGTH` or `failed LENGTH`, and as many bytes. The first answer comes unasked, when
LLVM is loaded, and has LLVM's version in it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import Any, BinaryIO

IDLE_SECONDS = 20
"""The time without work after which the process ends: its memory is worth more than the 40 ms of another start."""


def main(folder: str, seconds: float) -> None:
    """Answer requests until there are none. `seconds` of the processor's time are the most for one."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints is no answer
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)  # the caller may ignore or block it, which is inherited
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGVTALRM})
    sys.path.append(folder)
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    _answer(answers, "ok", str(llvm.llvm_version_info).encode())
    while line := _next_line(requests):
        kind, triple, cpu, features, length = line.split()
        text = requests.read(int(length)).decode()
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            answer = "ok", _translated(llvm, kind, text, triple, cpu, "" if features == "-" else features)
        except RuntimeError as error:
            answer = "failed", str(error).encode()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        _answer(answers, *answer)


def _next_line(requests: BinaryIO) -> str:
    """The line of the next request; empty if none came in time, or the caller has ended."""
    readable, _, _ = select.select([requests], [], [], IDLE_SECONDS)
    return requests.readline().decode() if readable else ""


def _translated(llvm: Any, kind: str, text: str, triple: str, cpu: str, features: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )
    return bytes(machine.emit_object(module) if kind == "object" else machine.emit_assembly(module).encode())


def _answer(answers: BinaryIO, word: str, content: bytes) -> None:
    answers.write(b"%s %d\n%s" % (word.encode(), len(content), content))
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
