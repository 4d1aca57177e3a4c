"""Bars as SVG shapes, worked out here and written by a template: no script, no style, no library.

Series differ by pattern and order, so that colour is not needed to tell them apart, and each
number that a bar stands for is in a table beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Of the canvas, in the units of its viewBox, which are pixels at its natural width.
WIDTH = 720
HEIGHT = 240
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 22, 24
ROW_HEIGHT = 26
NAMES_WIDTH = 150
LABEL_WIDTH = 46
TICKS = 4
LONGEST_NAME = 20
SCALE = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


@dataclass(frozen=True, slots=True)
class Series:
    """One kind of number, for every label of its chart. `fill` is solid, hatch, dots or cross."""

    name: str
    fill: str
    values: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series stacked upon each other, label by label; `mark` is a line across each bar."""

    id: str
    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    mark: Series | None = None

    @property
    def totals(self) -> list[int]:
        """The height of each whole bar."""
        return [sum(values) for values in zip(*(one.values for one in self.series), strict=True)]

    @property
    def largest(self) -> int:
        """The highest bar or mark."""
        return max([*self.totals, *(self.mark.values if self.mark else ())], default=0)

    @property
    def description(self) -> str:
        """The chart in a sentence, for who does not see it."""
        sums = [f"{one.name} {sum(one.values):,}" for one in self._all()]
        return f"{self.title}. In all: {', '.join(sums)}. The numbers are in the table below."

    @property
    def table(self) -> list[tuple[str, list[int]]]:
        """Label by label, the numbers of each series and of the mark."""
        columns = [one.values for one in self._all()]
        return [(label, [values[i] for values in columns]) for i, label in enumerate(self.labels)]

    @property
    def heads(self) -> list[str]:
        """The heads of the table's columns."""
        return [one.name for one in self._all()]

    def _all(self) -> list[Series]:
        return [*self.series, *([self.mark] if self.mark else [])]


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, and what a pointer is told about it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    told: str


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line; `kind` is grid or mark."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True, slots=True)
class Label:
    """A short text; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str


@dataclass(slots=True)
class Drawing:
    """The shapes of a chart, in the order in which they lie upon each other."""

    chart: Chart
    width: int
    height: int
    lines: list[Line] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    marks: list[Line] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def columns(chart: Chart) -> Drawing:
    """Upright bars, for a course of time."""
    drawing = Drawing(chart, WIDTH, HEIGHT)
    ticks = scale(chart.largest)
    height = HEIGHT - TOP - BOTTOM
    foot = HEIGHT - BOTTOM
    for tick in ticks:
        y = round(foot - height * tick / ticks[-1], 1)
        drawing.lines.append(Line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        drawing.labels.append(Label(LEFT - 6, y + 4, compact(tick), "end"))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(chart.labels))
    width = round(step * 0.7, 1)
    every = -(-len(chart.labels) * LABEL_WIDTH // (WIDTH - LEFT - RIGHT)) or 1
    for i, label in enumerate(chart.labels):
        x = round(LEFT + step * i + (step - width) / 2, 1)
        top = float(foot)
        for series, told in _parts(chart, i):
            part = round(height * series.values[i] / ticks[-1], 1)
            top -= part
            drawing.bars.append(Bar(x, round(top, 1), width, part, series.fill, told))
        if chart.mark and chart.mark.values[i]:
            y = round(foot - height * chart.mark.values[i] / ticks[-1], 1)
            drawing.marks.append(Line(x - 2, y, round(x + width + 2, 1), y, "mark"))
        middle = round(x + width / 2, 1)
        if i % every == 0:
            drawing.labels.append(Label(middle, HEIGHT - 8, label, "middle"))
        if chart.totals[i] and step >= LABEL_WIDTH * 0.7:
            text = compact(chart.totals[i])
            drawing.labels.append(Label(middle, round(top - 5, 1), text, "middle"))
    return drawing


def rows(chart: Chart) -> Drawing:
    """Lying bars with their names before and their sums behind them, for a ranking; no mark."""
    drawing = Drawing(chart, WIDTH, ROW_HEIGHT * len(chart.labels) + 8)
    room = WIDTH - NAMES_WIDTH - LABEL_WIDTH - RIGHT
    largest = max(1, chart.largest)
    for i, label in enumerate(chart.labels):
        y = 4 + ROW_HEIGHT * i
        drawing.labels.append(Label(NAMES_WIDTH - 8, y + 15, shortened(label), "end"))
        x = float(NAMES_WIDTH)
        for series, told in _parts(chart, i):
            width = round(room * series.values[i] / largest, 1)
            drawing.bars.append(Bar(round(x, 1), y, width, ROW_HEIGHT - 8, series.fill, told))
            x += width
        text = compact(chart.totals[i])
        drawing.labels.append(Label(round(x + 6, 1), y + 15, text, "start"))
    return drawing


def _parts(chart: Chart, i: int) -> list[tuple[Series, str]]:
    """The series that a bar is made of, with what a pointer is told of each."""
    parts = [series for series in chart.series if series.values[i]]
    return [(one, f"{chart.labels[i]}: {one.name} {one.values[i]:,}") for one in parts]


def scale(largest: int) -> list[int]:
    """Round numbers from 0 to the first that is not below the largest."""
    step = 1
    while step * TICKS < largest:
        first = int(str(step)[0])
        step = step * 5 // 2 if first == 2 else step * 2
    top = max(1, -(-largest // step))
    return [step * i for i in range(top + 1)]


def compact(number: int) -> str:
    """12345 as 12.3k: three digits or so, for a label that has little room."""
    for size, unit in SCALE:
        if number >= size:
            part = number / size
            return f"{part:.0f}{unit}" if part >= 100 else f"{part:.1f}".removesuffix(".0") + unit
    return str(number)


def shortened(name: str) -> str:
    """A name that fits before its bar."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
