"""A run as a picture: when it was silent, slow or stood, the steps of its ranks, and how busy it kept the machine."""

from collections.abc import Sequence
from math import ceil
from statistics import fmean

from gpudoctor.folder.answer import FolderAnswer, StepsOverTime, UseOverTime
from gpudoctor.knowledge.wording import counted, size
from gpudoctor.render.folder import clock, duration, when
from gpudoctor.render.html.markup import Markup, Part, table, tag

WIDE, LEFT, RIGHT = 1000, 110, 14
BAR, STRIP, CURVE, GAP, AXIS = 18, 12, 96, 10, 26
CELLS = 180
MOST_STRIPS, MOST_CURVES = 64, 6
MOST_MOMENTS = 200
LEVELS = 5
TICKS = 8
DAY = 86400
PAUSES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY)
CLOCK = 60
"""How wide the words of a time are."""
SPANS = {"silence": "span-silence", "slow": "span-slow"}
MARKS = {"stall": "✕", "signal": "!", "end": "■", "log": "•", "start": "▶", "silence": "…", "slow": "…"}
NAMES = {"stall": "stands still", "signal": "signal", "end": "end", "log": "log", "start": "start",
         "silence": "silent", "slow": "slow"}  # fmt: skip


def timeline(answer: FolderAnswer) -> list[Part]:
    """The picture where times are known, and what happened as a table; its numbers are those of the picture."""
    shown = answer.moments[:MOST_MOMENTS]
    last = max(
        (
            *(moment.until or moment.seconds or 0.0 for moment in answer.moments),
            *(curve.points[-1][0] for curve in answer.use if curve.points),
            *(step.points[-1][0] for step in answer.steps if step.points),
        ),
        default=0.0,
    )
    drawn = [_picture(answer, last)] if last > 0 else []
    rows = [
        tag(
            "tr",
            tag("td", str(number), class_="whole"),
            tag("td", when(moment), class_="whole"),
            tag("td", MARKS[moment.kind], " ", NAMES[moment.kind], class_=f"whole is-{moment.kind}"),
            tag("td", moment.text),
            tag("td", moment.source, class_="id"),
        )
        for number, moment in enumerate(shown, 1)
    ]
    titles = ("", f"After {answer.clock}" if answer.clock else "When", "What", "", "Told by")
    more = len(answer.moments) - len(shown)
    rest = tag("p", f"and {more} more, which the data inside has", class_="soft") if more else None
    return [*drawn, table(titles, rows, label="What happened") if rows else None, rest]


class _Drawing:
    """Parts below each other, along one axis of time."""

    def __init__(self, last: float) -> None:
        self._last = last
        self.y = 4
        self.parts: list[Markup] = []

    def x(self, seconds: float) -> float:
        return round(LEFT + min(max(seconds / self._last, 0.0), 1.0) * (WIDE - LEFT - RIGHT), 1)

    def label(self, text: str, height: int) -> None:
        self.parts.append(
            tag("text", text[:18], x=LEFT - 8, y=self.y + height // 2 + 4, text_anchor="end", class_="small")
        )

    def rect(
        self, one: float, later: float, height: int, class_: str, title: str, opacity: float | None = None
    ) -> None:
        x, to = self.x(one), self.x(later)
        self.parts.append(
            tag(
                "rect",
                tag("title", title),
                x=x,
                y=self.y,
                width=round(max(to - x, 1.5), 1),
                height=height,
                class_=class_,
                fill_opacity=opacity,
            )
        )

    def end(self, height: int) -> None:
        self.y += height + GAP


def _picture(answer: FolderAnswer, last: float) -> Markup:
    drawing = _Drawing(last)
    _course(answer, drawing, last)
    _steps(answer.steps, drawing)
    busy = [curve for curve in answer.use if curve.unit == "%" and curve.points]
    for curve in busy[:MOST_STRIPS]:
        _strip(curve, drawing, last)
    if busy:
        drawing.end(0)
    for curve in answer.use:
        if curve.name in ("processors", "memory") and len(curve.points) > 1:
            most = max(value for _, value in curve.points)
            words = size(int(most)) if curve.unit == "bytes" else f"{most:.3g} cores"
            _curve([(curve.name, curve.points)], drawing, curve.name, words, CURVE // 2)
    for at in ticks(last):
        x = drawing.x(at)
        anchor = "start" if not at else "end" if WIDE - x < CLOCK else "middle"
        drawing.parts.append(tag("line", x1=x, y1=4, x2=x, y2=drawing.y, class_="grid"))
        drawing.parts.append(tag("text", clock(at), x=x, y=drawing.y + 14, text_anchor=anchor, class_="small"))
    height = drawing.y + AXIS
    title = "The run over time"
    shown = tag(
        "svg",
        tag("title", title),
        drawing.parts,
        viewBox=f"0 0 {WIDE} {height}",
        width=WIDE,
        height=height,
        role="img",
        aria_label=title,
        class_="time",
    )
    figure = tag("figure", shown, class_="wide", tabindex="0", role="region", aria_label=title)
    return tag("div", figure, tag("p", _legend(answer), class_="soft"), class_="over-time")


def ticks(last: float) -> list[float]:
    """Round times from the start to the end, few enough to stand beside each other."""
    pause = next((pause for pause in PAUSES if last / pause <= TICKS), DAY * ceil(last / DAY / TICKS))
    return [pause * number for number in range(int(last / pause) + 1)]


def _legend(answer: FolderAnswer) -> str:
    words = ["green: it ran; grey: it said nothing; yellow: fewer steps than usual; red: it stood still or failed"]
    if any(curve.unit == "%" for curve in answer.use):
        words.append("the stronger the colour of a GPU's strip, the busier it was")
    return f"{'; '.join(words)}. Numbers are those of the table."


def _course(answer: FolderAnswer, drawing: _Drawing, last: float) -> None:
    """What it did, in one bar, and the numbers of what happened above it."""
    drawing.end(10)
    drawing.label("run", BAR)
    end = answer.run.seconds if answer.run is not None and answer.run.seconds else last
    drawing.rect(0.0, end, BAR, "span-well", f"{duration(end)}")
    for each in answer.moments:
        if each.kind in SPANS and each.seconds is not None and each.until is not None:
            drawing.rect(each.seconds, each.until, BAR, SPANS[each.kind], each.text)
    places: list[float] = []
    for number, each in enumerate(answer.moments[:MOST_MOMENTS], 1):
        if each.seconds is None or each.kind == "start":
            continue
        is_bad = each.kind == "stall" or (each.kind == "end" and answer.ended_well is False)
        x = drawing.x(each.seconds)
        drawing.parts.append(
            tag(
                "line",
                tag("title", f"{number}: {each.text}"),
                x1=x,
                y1=drawing.y - 3,
                x2=x,
                y2=drawing.y + BAR + 3,
                class_="at-bad" if is_bad else "at",
            )
        )
        if all(abs(x - other) > 8 + 6 * len(str(number)) for other in places):
            places.append(x)
            drawing.parts.append(tag("text", str(number), x=x, y=drawing.y - 5, text_anchor="middle", class_="small"))
    drawing.end(BAR)


def _steps(steps: Sequence[StepsOverTime], drawing: _Drawing) -> None:
    """Of few ranks a line each; of many those who have come least far, farthest, and the one in the middle."""
    times = [step for step in steps if step.points]
    if not times:
        return
    by_last = sorted(times, key=lambda time: (time.points[-1][1], time.points[-1][0]))
    if len(times) > MOST_CURVES:
        by_last = [*by_last[: MOST_CURVES - 2], by_last[len(by_last) // 2], by_last[-1]]
    lines = [(f"rank {time.rank}" if time.rank is not None else "all", time.points) for time in by_last]
    most = max(step for time in times for _, step in time.points)
    of = f", of {counted(len(times), 'rank')}" if len(times) > len(lines) else ""
    height = max(CURVE, 22 * len(lines))  # the names stand where the curves have not come up yet
    _curve(lines, drawing, "step", f"{most:.0f}", height)
    for number, (name, points) in enumerate(lines):
        drawing.parts.append(
            tag(
                "text",
                f"{name}: step {points[-1][1]:.0f}{of if number == len(lines) - 1 else ''}",
                x=LEFT + 8,
                y=drawing.y - height - GAP + 14 + 13 * number,
                class_=f"of-curve f{number}",
            )
        )


def _curve(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], drawing: _Drawing, name: str, most: str, height: int
) -> None:  # fmt: skip
    top = max((value for _, points in lines for _, value in points), default=0.0) or 1.0
    drawing.label(name, height)
    drawing.parts.append(tag("text", most, x=LEFT - 8, y=drawing.y + 9, text_anchor="end", class_="small"))
    for number, (title, points) in enumerate(lines):
        thinned = points[:: max(1, len(points) // (2 * CELLS))]
        way = " L".join(
            f"{drawing.x(at):g} {round(drawing.y + height - value / top * height, 1):g}" for at, value in thinned
        )
        drawing.parts.append(tag("path", tag("title", title), d=f"M{way}", class_=f"curve c{number % MOST_CURVES}"))
    drawing.end(height)


def _strip(use: UseOverTime, drawing: _Drawing, last: float) -> None:
    """Cells of equal time in shades; neighbours of one shade are one."""
    cells: dict[int, list[float]] = {}
    for at, value in use.points:
        cells.setdefault(min(int(at / last * CELLS), CELLS - 1), []).append(value)
    drawing.label(use.name, STRIP)
    width = last / CELLS
    known = sorted(cells)
    runs: list[tuple[int, int, int]] = []
    for number, cell in enumerate(known):
        level = min(int(fmean(cells[cell]) / 100 * LEVELS), LEVELS - 1)
        until = known[number + 1] if number + 1 < len(known) else min(cell + 1, CELLS)
        if runs and runs[-1][2] == level and runs[-1][1] == cell:
            runs[-1] = (runs[-1][0], until, level)
        else:
            runs.append((cell, until, level))
    for one, later, level in runs:
        low, high = level * 100 // LEVELS, (level + 1) * 100 // LEVELS
        drawing.rect(
            one * width,
            later * width,
            STRIP,
            "use",
            f"{use.name}: {low} to {high}% busy",
            0.08 + 0.92 * level / (LEVELS - 1),
        )
    drawing.y += STRIP + 3
