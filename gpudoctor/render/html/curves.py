"""Bandwidth against size as a picture: a line a collective, dashed what such machines reach."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.knowledge.wording import size
from gpudoctor.render.html.markup import Markup, tag

WIDE, HIGH = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40
COLOURS = 6
MOST_LABELS = 8


class Curve(NamedTuple):
    name: str
    points: tuple[tuple[int, float], ...]
    """(bytes, GB/s)."""
    expected: float | None = None
    """At the largest size."""


def curves(every: Sequence[Curve]) -> Markup | None:
    """Sizes by powers of two, bandwidth from 0; None without a point."""
    drawn = [curve for curve in every if curve.points]
    sizes = sorted({bytes_ for curve in drawn for bytes_, _ in curve.points if bytes_ > 0})
    top = max((value for curve in drawn for _, value in curve.points), default=0.0)
    top = max([top, *(curve.expected for curve in drawn if curve.expected)])
    if not sizes or not math.isfinite(top) or top <= 0:
        return None
    scale = _Scale(math.log2(sizes[0]), math.log2(sizes[-1]), _round_up(top))
    inside = [
        *_grid(scale, sizes),
        *(part for number, each in enumerate(drawn) for part in _drawn(scale, number, each)),
    ]
    title = "Bus bandwidth in GB/s against size"
    shown = tag(
        "svg",
        tag("title", title),
        inside,
        tag("text", "bus bandwidth, GB/s (1e9 bytes), against size", x=LEFT, y=HIGH - 6, class_="small"),
        viewBox=f"0 0 {WIDE} {HIGH}",
        width=WIDE,
        height=HIGH,
        role="img",
        aria_label=title,
        class_="broad",
    )
    names = [
        tag("li", tag("span", "", class_=f"stroke b{number % COLOURS}"), f" {each.name}", _expected(each))
        for number, each in enumerate(drawn)
    ]
    scrolls = tag("div", shown, class_="scrolls", tabindex="0", role="region", aria_label=title)
    return tag("div", tag("figure", scrolls, tag("ul", names, class_="legend")), class_="pictures")


def _expected(curve: Curve) -> str:
    return f", dashed: {curve.expected:g} GB/s reached elsewhere" if curve.expected is not None else ""


class _Scale(NamedTuple):
    first: float
    last: float
    top: float

    def x(self, bytes_: int) -> float:
        part = (math.log2(bytes_) - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return round(LEFT + part * (WIDE - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HIGH - BOTTOM - value / self.top * (HIGH - TOP - BOTTOM), 1)


def _round_up(value: float) -> float:
    """To 1, 2, 2.5, 5 or 10 of its power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1.0, 2.0, 2.5, 5.0) if value <= step * power * 1.0001), 10.0 * power)


def _grid(scale: _Scale, sizes: Sequence[int]) -> list[Markup]:
    parts = []
    for quarter in range(5):
        value = scale.top * quarter / 4
        y = scale.y(value)
        parts.append(tag("line", x1=LEFT, y1=y, x2=WIDE - RIGHT, y2=y, class_="grid"))
        parts.append(tag("text", f"{value:g}", x=LEFT - 6, y=y + 4, text_anchor="end", class_="small"))
    step = -(-len(sizes) // MOST_LABELS)
    for bytes_ in sizes[::-1][::step]:
        x, below, anchor = scale.x(bytes_), HIGH - BOTTOM + 15, _anchor(scale, bytes_)
        parts.append(tag("text", size(bytes_), x=x, y=below, text_anchor=anchor, class_="small"))
    return parts


def _anchor(scale: _Scale, bytes_: int) -> str:
    """What stands at an end stays inside."""
    x = scale.x(bytes_)
    return "end" if x > WIDE - RIGHT - 20 else "start" if x < LEFT + 20 else "middle"


def _drawn(scale: _Scale, number: int, curve: Curve) -> list[Markup]:
    colour = f"c{number % COLOURS}"
    places = [(scale.x(bytes_), scale.y(value), bytes_, value) for bytes_, value in curve.points if bytes_ > 0]
    way = "M" + " L".join(f"{x:g} {y:g}" for x, y, _, _ in places)
    parts = [tag("path", d=way, class_=f"curve {colour}")]
    if curve.expected is not None:
        y = scale.y(curve.expected)
        parts.append(tag("line", x1=LEFT, y1=y, x2=WIDE - RIGHT, y2=y, class_=f"expected {colour}"))
    for x, y, bytes_, value in places:
        title = tag("title", f"{curve.name}, {size(bytes_)}: {value:g} GB/s")
        parts.append(tag("circle", title, cx=x, cy=y, r=3, class_=f"point {colour}"))
    return parts
