"""The worker pool's machine code: a caller shares a compiled loop's items with idle workers.

    pool    line 0   callers at work                        line 1 on   the addresses of the slots, then 0
    slot    line 0   state, owner                           line 1      job, part, locks, lock functions, thread
            line 2   functions of the affinity              line 3, 4   the worker's affinity, a bit a core
    job     line 0   loop, source, target, parameters,      line 1 + p  of part p: items begun, its slot
                     items, parts

A line is a cache line. Each part is a range of the items, the same at each call: what a thread read or wrote before is
in its caches. A thread takes its own part in chunks, then steals chunks of the other parts. The caller cancels a
part that no worker has picked up, so a worker that the system has stopped delays nobody. No thread needs Python's lock.
An idle worker spins for about 50 us, then parks.

Linux may wake a worker on the caller's own core, if another thread was busy on the others shortly before. The two then
take turns there for some milliseconds, in which shared calls take up to twice as long as on one thread. So the caller
excludes its core from the worker's affinity before it wakes the worker, which takes the affinity back when it runs.

    state   FREE -> POSTED -> TAKEN -> FREE     a job is posted, picked up, finished
            FREE <-> ASLEEP                     the worker parks on "wake"; whoever posts releases it
            POSTED -> FREE                      the caller cancels a job that was not picked up
            TAKEN -> AWAITED -> FREE            the caller parks on "done"; the worker releases it
    owner   0 -> 1 -> 0                         a caller reserves the slot until its job is finished
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stridedgpu.devices.cpu.policy import policy

from .ir import LINE_BYTES, Code, Value, module_text

LINE_WORDS: Final = LINE_BYTES // 8
"""64-bit words of a cache line."""


class _Slot(NamedTuple):
    """The words of a slot."""

    state: int
    owner: int
    job: int
    part: int
    wake: int
    done: int
    acquire: int
    release: int
    thread: int
    get_core: int
    get_affinity: int
    set_affinity: int
    affinity: int


SLOT: Final = _Slot(
    state=0,
    owner=1,
    job=LINE_WORDS,
    part=LINE_WORDS + 1,
    wake=LINE_WORDS + 2,
    done=LINE_WORDS + 3,
    acquire=LINE_WORDS + 4,
    release=LINE_WORDS + 5,
    thread=LINE_WORDS + 6,
    get_core=2 * LINE_WORDS,
    get_affinity=2 * LINE_WORDS + 1,
    set_affinity=2 * LINE_WORDS + 2,
    affinity=3 * LINE_WORDS,
)
"""The words that a worker spins on have a cache line of their own. `get_core` is 0 where there is no affinity."""

SLOT_WORDS: Final = 5 * LINE_WORDS
"""The words of a slot."""

_AFFINITY_BYTES: Final = 128
"""Bytes of an affinity, as in the C library's `cpu_set_t`."""

_LOOP, _SOURCE, _TARGET, _PARAMETERS, _ITEMS, _PARTS = range(6)
"""The words of a job's first line."""

_BEGUN, _SLOT = 0, 8
"""Byte offsets in a part's line: the number of items begun, and the address of its slot."""

_FREE, _ASLEEP, _POSTED, _TAKEN, _AWAITED = range(5)
"""The states of a slot."""


def pool_text(architecture: str) -> str:
    """The module for the architecture of a `Target`.

    `void kernel_serve(slot, spins)` is a worker's loop and never returns. `void kernel_run(loop, source, target,
    parameters, items, job, pool, threads, spins)` returns when every item is done and every slot is released. `threads`
    is the most threads that may work, `spins` the polls before parking.
    """
    return module_text({"kernel_serve": _serve(architecture), "kernel_run": _run(architecture)})


def _serve(architecture: str) -> Code:
    """A worker: run the posted job, or park until one is posted."""
    code = Code("ptr slot", "i64 spins")
    slot, spins = code.argument("slot"), code.argument("spins")
    with code.forever():
        _look(slot, spins, architecture, state=_POSTED, until=True)
        begins = code.replace_if(slot, _POSTED, _TAKEN)
        with code.when(begins):
            job = slot.word(SLOT.job).pointer()
            _work(job, slot.word(SLOT.part))
            before = code.exchange(slot, _FREE)
            with code.when(before == _AWAITED):
                _release(slot, SLOT.done)
        with code.when(~begins), code.when(code.replace_if(slot, _FREE, _ASLEEP)):
            _acquire(slot, SLOT.wake)
            with code.when(_has_affinity(slot)):
                _set_affinity(slot)
    return code


def _run(architecture: str) -> Code:
    """A caller: reserve slots, post the job, work on it, and wait for the workers that took part."""
    names = ("ptr loop", "ptr source", "ptr target", "ptr parameters", "i64 items", "ptr job", "ptr pool")
    code = Code(*names, "i64 threads", "i64 spins")
    items, job, pool, spins = (code.argument(name) for name in ("items", "job", "pool", "spins"))
    for place, name in enumerate(("loop", "source", "target", "parameters", "items")):
        code.store(code.argument(name), job + 8 * place, 8)

    # Concurrent callers divide the threads among themselves; with as many callers as cores each works alone.
    others = code.fetch_add(pool, 1)
    threads = code.argument("threads") // (others + 1)
    wanted = threads.at_most(items)
    _reserve(code, wanted)
    parts = job.word(_PARTS)
    code.store(0, _line(job, code.constant(0)), 8)

    with code.loop(1, parts) as part:
        slot = _slot_of(job, part)
        code.store(job, slot + 8 * SLOT.job, 8)
        code.store(part, slot + 8 * SLOT.part, 8)
        before = code.exchange(slot, _POSTED)
        with code.when(before == _ASLEEP):
            with code.when(_has_affinity(slot)):
                _exclude_this_core(slot)
            _release(slot, SLOT.wake)

    _work(job, code.constant(0))

    with code.loop(1, parts) as part:
        slot = _slot_of(job, part)
        with code.when(~code.replace_if(slot, _POSTED, _FREE)):
            _look(slot, spins, architecture, state=_TAKEN, until=False)
            with code.when(code.replace_if(slot, _TAKEN, _AWAITED)):
                _acquire(slot, SLOT.done)
    # Slots are released after all parts are finished: until then a worker may still read any part.
    with code.loop(1, parts) as part:
        code.store_shared(0, _slot_of(job, part) + 8 * SLOT.owner)
    code.fetch_add(pool, -1)
    return code


def _reserve(code: Code, wanted: Value) -> None:
    """Reserve slots until the job has `wanted` parts."""
    job, pool = code.argument("job"), code.argument("pool")
    parts = job + 8 * _PARTS
    code.store(1, parts, 8)
    with code.loop(LINE_BYTES, 1 << 32, 8) as place:
        number = parts.load("i64", 8)
        code.leave(number >= wanted)
        address = (pool + place).load("i64", 8)
        code.leave(address == 0)
        slot = address.pointer()
        with code.when(code.replace_if(slot + 8 * SLOT.owner, 0, 1)):
            line = _line(job, number)
            code.store(0, line + _BEGUN, 8)
            code.store(slot, line + _SLOT, 8)
            code.store(number + 1, parts, 8)


def _work(job: Value, own: Value) -> None:
    """Run the remaining items of all parts, the own part first, a chunk at a time."""
    code = job.code
    loop, source, target, parameters = (job.word(word).pointer() for word in (_LOOP, _SOURCE, _TARGET, _PARAMETERS))
    items, parts = job.word(_ITEMS), job.word(_PARTS)
    with code.loop(0, parts) as turn:
        part = (own + turn) % parts
        begin = part * items // parts
        end = (part + 1) * items // parts
        size = (end - begin) // policy().sharing.chunks
        chunk = (size == 0).select(1, size)
        begun = _line(job, part) + _BEGUN
        with code.forever():
            first = begin + code.fetch_add(begun, chunk)
            code.leave(first.compare("icmp uge", end))
            loop(source, target, parameters, first, (first + chunk).at_most(end))


def _look(slot: Value, spins: Value, architecture: str, *, state: int, until: bool) -> None:
    """Spin until a slot enters a state (`until`) or leaves it, for at most `spins` polls."""
    code = slot.code
    with code.loop(0, spins):
        code.leave(code.load_shared(slot).compare("icmp eq" if until else "icmp ne", state))
        code.pause(architecture)


def _acquire(slot: Value, lock: int) -> None:
    """Acquire one of a slot's locks, through the function that Python itself uses."""
    function, forever = slot.word(SLOT.acquire).pointer(), slot.code.constant(1, "i32")
    function(slot.word(lock).pointer(), forever, returns="i32")


def _release(slot: Value, lock: int) -> None:
    slot.word(SLOT.release).pointer()(slot.word(lock).pointer())


def _has_affinity(slot: Value) -> Value:
    return slot.word(SLOT.get_core) != 0


def _exclude_this_core(slot: Value) -> None:
    """Exclude the core that this thread runs on from the affinity of a parked worker, and keep the one it had.

    A failure leaves the worker where it is: the only core that the process may use cannot be excluded.
    """
    code, affinity = slot.code, slot + 8 * SLOT.affinity
    get_core, get_affinity = (slot.word(word).pointer() for word in (SLOT.get_core, SLOT.get_affinity))
    failed = get_affinity(_thread(slot), _AFFINITY_BYTES, affinity, returns="i32")
    core = get_core(returns="i32").cast("zext", "i64")
    is_known = (failed == 0) & core.compare("icmp ult", 8 * _AFFINITY_BYTES)
    with code.when(is_known):
        place = affinity + (core >> 6) * 8
        cores = place.load("i64", 8)
        bit = code.constant(1) << (core & 63)
        code.store(cores & (bit ^ -1), place, 8)
        _set_affinity(slot)
        code.store(cores, place, 8)


def _set_affinity(slot: Value) -> None:
    function, affinity = slot.word(SLOT.set_affinity).pointer(), slot + 8 * SLOT.affinity
    function(_thread(slot), _AFFINITY_BYTES, affinity, returns="i32")


def _thread(slot: Value) -> Value:
    return slot.word(SLOT.thread).cast("trunc", "i32")


def _line(job: Value, part: Value) -> Value:
    return job + (part + 1) * LINE_BYTES


def _slot_of(job: Value, part: Value) -> Value:
    return (_line(job, part) + _SLOT).load("ptr", 8)
