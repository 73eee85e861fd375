"""The text of what shares a compiled loop's items among threads: a caller leads, helpers at their desks join in.

    desk    0  state: below            64  the job, the part's number
                                       80  two locks: "wake" the helper, and "done" for the caller
                                       96  how to acquire a lock, and how to release one
    job     0  the loop, source, target, parameters, items, parts
           64  and each further 64 bytes a part: how many of its items are begun, and the desk of its helper

Every thread begins with its own part of the items, which is the same at each call: memory that it wrote or read before
is in its caches, or in those that it shares with its neighbours. Whoever is done takes items of the others' parts, so
that nobody waits for a helper that has not come: its post is taken back. No thread needs Python's lock. Who has
nothing to do looks out for some microseconds, in which a caller that has more work comes back, and then sleeps.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DESK_WORDS", "crew_text"]

DESK_WORDS: Final = 16
"""64-bit words of a desk."""

_STATES: Final = {"free": 0, "asleep": 1, "posted": 2, "taken": 3, "awaited": 4}
"""A desk's: the helper has nothing to do, and looks out or waits for "wake"; a job lies there; the helper is at it; and
the caller waits for "done".
"""

_TEXT: Final = """\
{pause_declaration}

define internal void @take_part(ptr %job, i64 %number) nounwind {{
entry:
  %function = load ptr, ptr %job
  %source.at = getelementptr i64, ptr %job, i64 1
  %source = load ptr, ptr %source.at
  %target.at = getelementptr i64, ptr %job, i64 2
  %target = load ptr, ptr %target.at
  %parameters.at = getelementptr i64, ptr %job, i64 3
  %parameters = load ptr, ptr %parameters.at
  %items.at = getelementptr i64, ptr %job, i64 4
  %items = load i64, ptr %items.at
  %parts.at = getelementptr i64, ptr %job, i64 5
  %parts = load i64, ptr %parts.at
  br label %turn
turn:
  %turns = phi i64 [ 0, %entry ], [ %turns.next, %over ]
  %more = icmp ult i64 %turns, %parts
  br i1 %more, label %part, label %end
part:
  %ahead = add i64 %number, %turns
  %this = urem i64 %ahead, %parts
  %next = add i64 %this, 1
  %from.items = mul i64 %this, %items
  %from = udiv i64 %from.items, %parts
  %until.items = mul i64 %next, %items
  %until = udiv i64 %until.items, %parts
  %line.bytes = shl i64 %next, 6
  %line = getelementptr i8, ptr %job, i64 %line.bytes
  br label %take
take:
  %begun = atomicrmw add ptr %line, i64 1 monotonic
  %item = add i64 %from, %begun
  %left = icmp ult i64 %item, %until
  br i1 %left, label %work, label %over
work:
  %item.next = add i64 %item, 1
  call void %function(ptr %source, ptr %target, ptr %parameters, i64 %item, i64 %item.next)
  br label %take
over:
  %turns.next = add i64 %turns, 1
  br label %turn
end:
  ret void
}}

; The state after looking at it so many times, or as soon as it is, or is no longer, what was asked for.
define internal i64 @look(ptr %desk, i64 %asked, i1 %until, i64 %spins) nounwind {{
entry:
  br label %again
again:
  %count = phi i64 [ 0, %entry ], [ %count.next, %wait ]
  %state = load atomic i64, ptr %desk acquire, align 8
  %same = icmp eq i64 %state, %asked
  %found = icmp eq i1 %same, %until
  %tired = icmp uge i64 %count, %spins
  %stop = or i1 %found, %tired
  br i1 %stop, label %end, label %wait
wait:
  {pause}
  %count.next = add i64 %count, 1
  br label %again
end:
  ret i64 %state
}}

define internal void @acquire(ptr %desk, i64 %place) nounwind {{
  %lock.at = getelementptr i64, ptr %desk, i64 %place
  %lock = load ptr, ptr %lock.at
  %function.at = getelementptr i64, ptr %desk, i64 12
  %function = load ptr, ptr %function.at
  %acquired = call i32 %function(ptr %lock, i32 1)
  ret void
}}

define internal void @release(ptr %desk, i64 %place) nounwind {{
  %lock.at = getelementptr i64, ptr %desk, i64 %place
  %lock = load ptr, ptr %lock.at
  %function.at = getelementptr i64, ptr %desk, i64 13
  %function = load ptr, ptr %function.at
  call void %function(ptr %lock)
  ret void
}}

define void @kernel_serve(ptr %desk, i64 %spins) nounwind {{
entry:
  %job.at = getelementptr i64, ptr %desk, i64 8
  %number.at = getelementptr i64, ptr %desk, i64 9
  br label %look_out
look_out:
  %state = call i64 @look(ptr %desk, i64 {posted}, i1 true, i64 %spins)
  %begin = cmpxchg ptr %desk, i64 {posted}, i64 {taken} acq_rel acquire
  %begins = extractvalue {{ i64, i1 }} %begin, 1
  br i1 %begins, label %work, label %rest
work:
  %job = load ptr, ptr %job.at
  %number = load i64, ptr %number.at
  call void @take_part(ptr %job, i64 %number)
  %before = atomicrmw xchg ptr %desk, i64 {free} acq_rel
  %awaited = icmp eq i64 %before, {awaited}
  br i1 %awaited, label %tell, label %look_out
tell:
  call void @release(ptr %desk, i64 11)
  br label %look_out
rest:
  %lie = cmpxchg ptr %desk, i64 {free}, i64 {asleep} acq_rel acquire
  %lies = extractvalue {{ i64, i1 }} %lie, 1
  br i1 %lies, label %sleep, label %look_out
sleep:
  call void @acquire(ptr %desk, i64 10)
  br label %look_out
}}

define void @kernel_lead(ptr %job, i64 %spins) nounwind {{
entry:
  %parts.at = getelementptr i64, ptr %job, i64 5
  %parts = load i64, ptr %parts.at
  br label %post
post:
  %number = phi i64 [ 1, %entry ], [ %number.next, %posted ]
  %line = phi ptr [ %job, %entry ], [ %line.next, %posted ]
  %more = icmp ult i64 %number, %parts
  br i1 %more, label %desk, label %work
desk:
  %desk.at = getelementptr i8, ptr %line, i64 136
  %desk.this = load ptr, ptr %desk.at
  %job.at = getelementptr i64, ptr %desk.this, i64 8
  store ptr %job, ptr %job.at
  %number.at = getelementptr i64, ptr %desk.this, i64 9
  store i64 %number, ptr %number.at
  %before = atomicrmw xchg ptr %desk.this, i64 {posted} acq_rel
  %slept = icmp eq i64 %before, {asleep}
  br i1 %slept, label %wake, label %posted
wake:
  call void @release(ptr %desk.this, i64 10)
  br label %posted
posted:
  %number.next = add i64 %number, 1
  %line.next = getelementptr i8, ptr %line, i64 64
  br label %post
work:
  call void @take_part(ptr %job, i64 0)
  br label %leave
leave:
  %left = phi i64 [ 1, %work ], [ %left.next, %gone ]
  %place = phi ptr [ %job, %work ], [ %place.next, %gone ]
  %any = icmp ult i64 %left, %parts
  br i1 %any, label %withdraw, label %end
withdraw:
  %other.at = getelementptr i8, ptr %place, i64 136
  %other = load ptr, ptr %other.at
  %withdrawn = cmpxchg ptr %other, i64 {posted}, i64 {free} acq_rel acquire
  %never = extractvalue {{ i64, i1 }} %withdrawn, 1
  br i1 %never, label %gone, label %look
look:
  %state = call i64 @look(ptr %other, i64 {taken}, i1 false, i64 %spins)
  %ask = cmpxchg ptr %other, i64 {taken}, i64 {awaited} acq_rel acquire
  %asked = extractvalue {{ i64, i1 }} %ask, 1
  br i1 %asked, label %sleep, label %gone
sleep:
  call void @acquire(ptr %other, i64 11)
  br label %gone
gone:
  %left.next = add i64 %left, 1
  %place.next = getelementptr i8, ptr %place, i64 64
  br label %leave
end:
  ret void
}}"""


def crew_text(processor: str) -> str:
    """The module for a processor, by the name that LLVM's triples begin with.

    `void kernel_serve(desk, spins)` never returns. `void kernel_lead(job, spins)` returns when every item is finished
    and every desk is free again.
    """
    x86 = processor in ("x86_64", "amd64")
    return _TEXT.format(
        pause_declaration="declare void @llvm.x86.sse2.pause()" if x86 else "",
        pause="call void @llvm.x86.sse2.pause()" if x86 else "fence seq_cst",
        **_STATES,
    )
