"""Pillow's premultiplied alpha in vectors of 16 bytes: whole pixels of 2 or 4 channels, the last of which is alpha."""

from __future__ import annotations

from .ir import Code, Value

__all__ = ["divided", "premultiplied"]


def _alphas(code: Code, pixels: Value, channels: int) -> tuple[Value, Value]:
    """The alpha of each lane's pixel, and which lanes are alpha."""
    lanes = range(pixels.lanes)
    alpha = code.shuffle(pixels, None, [lane - lane % channels + channels - 1 for lane in lanes])
    bits = ", ".join(f"i1 {int(lane % channels == channels - 1)}" for lane in lanes)
    return alpha, Value(f"<{pixels.lanes} x i1>", f"<{bits}>")


def premultiplied(code: Code, pixels: Value, channels: int) -> Value:
    """Colours times alpha, rounded as Pillow's `MULDIV255` does."""
    alpha, is_alpha = _alphas(code, pixels, channels)
    product = code.add(code.multiply(code.cast("zext", pixels, "i16"), code.cast("zext", alpha, "i16")), 128)
    whole = code.binary("lshr", code.add(code.binary("lshr", product, 8), product), 8)
    return code.select(is_alpha, pixels, code.cast("trunc", whole, "i8"))


def divided(code: Code, pixels: Value, channels: int) -> Value:
    """Colours by alpha, rounded down, at most 255; where alpha is 0 or 255 they stay.

    A quotient of float32 has the whole part of the exact one, which is at least 1/255 below the next integer.
    """
    alpha, is_alpha = _alphas(code, pixels, channels)
    color, below = (code.cast("uitofp", code.cast("zext", part, "i32"), "float") for part in (pixels, alpha))
    quotient = code.binary("fdiv", code.binary("fmul", color, code.full(color.type, "255.0")), below)
    stays = code.value(is_alpha.type, f"or {is_alpha.type} {code.compare('icmp eq', alpha, 0).name}, {is_alpha.name}")
    full = code.compare("icmp eq", alpha, -1)
    stays = code.value(is_alpha.type, f"or {stays.type} {stays.name}, {full.name}")
    most = code.full(quotient.type, "255.0")
    quotient = code.select(code.compare("fcmp olt", quotient, "255.0"), quotient, most)
    whole = code.cast("trunc", code.cast("fptoui", quotient, "i32"), "i8")
    return code.select(stays, pixels, whole)
