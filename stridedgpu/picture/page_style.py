"""The style sheet of HTML pictures, for light and dark and for any width."""

from __future__ import annotations

from typing import Final

__all__ = ["PAGE_STYLE", "PICTURE_STYLE"]

PICTURE_STYLE: Final = """
.sg-picture{font:14px/1.45 system-ui,sans-serif;color:inherit;max-width:100%}
.sg-picture h2{font-size:1.15em;margin:.2em 0}
.sg-picture h3{font-size:1em;margin:.6em 0 .2em}
.sg-picture p{margin:.2em 0}
.sg-picture .sg-sides{display:flex;flex-wrap:wrap;gap:1rem 2.5rem;align-items:flex-start}
.sg-picture .sg-side{flex:1 1 20rem;min-width:0}
.sg-picture .sg-planes{display:flex;flex-wrap:wrap;gap:.6rem 1rem;align-items:flex-end}
.sg-picture figure{margin:0;max-width:100%;overflow-x:auto;padding:3px}
.sg-picture figcaption{font-size:.85em;font-style:normal;text-align:left;margin:0;max-width:none}
.sg-picture .sg-plane{border-collapse:collapse;margin:0;width:auto;border:0}
.sg-picture td,.sg-picture .sg-box{
  font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;text-align:center;padding:.1em .35em;
  background-color:var(--tint);min-width:1.3em;
  border:1px solid color-mix(in srgb,currentColor 45%,transparent);cursor:default}
.sg-picture td.sg-left-out{border:0}
.sg-picture .sg-memory{display:flex;flex-wrap:wrap;row-gap:.35rem;padding:3px}
.sg-picture .sg-place{display:flex;flex-direction:column;align-items:stretch;text-align:center}
.sg-picture .sg-place small{font:10px ui-monospace,Menlo,Consolas,monospace;opacity:.85;min-height:1.2em;padding:0 2px}
.sg-picture .sg-padding .sg-box{background:repeating-linear-gradient(
  -45deg,transparent 0 4px,color-mix(in srgb,currentColor 35%,transparent) 4px 5px)}
.sg-picture .sg-ruler .sg-box{border-left:3px solid currentColor}
.sg-picture .sg-vector .sg-box{border-bottom:3px solid currentColor}
.sg-picture .sg-vector-start .sg-box{border-left:3px double currentColor;border-bottom-left-radius:8px}
.sg-picture td.sg-touched,.sg-picture .sg-touched .sg-box{box-shadow:inset 0 3px 0 currentColor}
.sg-picture .sg-gap{align-self:center;padding:0 .4em}
.sg-picture h3 small{font-weight:400}
.sg-picture td.sg-lit,.sg-picture .sg-lit .sg-box{
  outline:3px solid #b8860b;outline-offset:-1px;font-weight:700;background-image:none;background-color:#ffe08a;
  color:#1f2328;position:relative;z-index:1}
.sg-picture [tabindex]:focus-visible{outline:3px solid Highlight;outline-offset:1px}
.sg-picture td.sg-lit:focus-visible{outline:3px dashed #b8860b}
.sg-picture input{font:inherit;font-family:ui-monospace,Menlo,Consolas,monospace;width:11em;max-width:100%;
  color:inherit;background:transparent;border:1px solid currentColor;border-radius:4px;padding:.15em .4em}
.sg-picture output,.sg-picture .sg-status{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px;
  overflow-wrap:anywhere}
.sg-picture .sg-status{min-height:1.5em}
.sg-picture pre{white-space:pre-wrap;font-size:12px;overflow-wrap:anywhere;margin:.4em 0}
"""

PAGE_STYLE: Final = """
:root{color-scheme:light dark}
body{margin:1rem;color:#1f2328;background:#fff}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}}
"""
