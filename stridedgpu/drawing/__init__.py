"""Layouts, tensors, frames and plans, drawn in characters, as SVG and as HTML."""
