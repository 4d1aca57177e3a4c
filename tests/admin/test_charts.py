"""Charts: shapes that add up, a scale in round numbers, and every number in words as well."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.template.loader import render_to_string

from operations.charts import (
    LABEL_WIDTH,
    LEFT,
    WIDTH,
    Chart,
    Series,
    columns,
    compact,
    rows,
    scale,
    shortened,
)


def chart(*values: tuple[int, int], mark: tuple[int, ...] = ()) -> Chart:
    series = [
        Series("one", "solid", [pair[0] for pair in values]),
        Series("other", "hatch", [pair[1] for pair in values]),
    ]
    return Chart(
        id="c",
        title="Some <numbers>",
        labels=[f"label {i}" for i in range(len(values))],
        series=series,
        mark=Series("mark", "", mark) if mark else None,
    )


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (5, [0, 2, 4, 6]),
        (17, [0, 5, 10, 15, 20]),
        (64, [0, 20, 40, 60, 80]),
        (1_000_000, [0, 500_000, 1_000_000]),
    ],
)
def test_a_scale_ends_in_a_round_number_that_nothing_exceeds(largest: int, ticks: list[int]):
    assert scale(largest) == ticks


@pytest.mark.parametrize("largest", [*range(1, 300), 10**9 + 1, 2**62, 2**70])
def test_a_scale_has_few_steps_of_one_size(largest: int):
    ticks = scale(largest)

    assert ticks[-1] >= largest > ticks[-2]
    assert len({above - below for below, above in pairwise(ticks)}) == 1
    assert len(ticks) <= 5


def test_parts_of_a_column_stand_upon_each_other():
    drawing = columns(chart((30, 10), (0, 0), (40, 0)))

    lower, upper, alone = drawing.bars
    assert lower.x == upper.x
    assert upper.y + upper.height == pytest.approx(lower.y, abs=0.2)
    assert alone.height == pytest.approx(lower.height + upper.height, abs=0.2)
    assert [bar.fill for bar in drawing.bars] == ["solid", "hatch", "solid"]
    assert lower.told == "label 0: one 30"


def test_a_mark_lies_where_a_bar_of_its_size_would_end():
    drawing = columns(chart((30, 10), (0, 20), mark=(20, 20)))

    (first, _), bar = drawing.marks, drawing.bars[-1]
    assert first.y1 == first.y2 == bar.y


def test_a_bar_lies_as_long_as_its_number_and_ends_with_it():
    drawing = rows(chart((100, 50), (0, 75)))

    first, second, half = drawing.bars
    assert second.x == pytest.approx(first.x + first.width, abs=0.2)
    assert half.width == pytest.approx((first.width + second.width) / 2, abs=0.2)
    assert [label.text for label in drawing.labels] == ["label 0", "150", "label 1", "75"]


@pytest.mark.parametrize("count", [0, 1, 12, 92])
def test_labels_below_columns_do_not_touch(count: int):
    drawing = columns(chart(*[(1, 1)] * count))

    places = [label.x for label in drawing.labels if label.text.startswith("label")]
    assert all(right - left >= LABEL_WIDTH for left, right in pairwise(places))
    assert all(bar.x >= LEFT and bar.x + bar.width <= WIDTH for bar in drawing.bars)


def test_nothing_at_all_is_drawn_as_an_empty_chart():
    for empty in (chart(), chart((0, 0))):
        assert columns(empty).bars == rows(empty).bars == []


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (12345, "12.3k"), (999_999, "1000k"), (10**9, "1G")],
)
def test_labels_are_short(number: int, text: str):
    assert compact(number) == text


def test_a_long_name_is_cut():
    assert shortened("a name of more than twenty letters") == "a name of more than…"


def test_a_chart_is_written_without_style_and_told_in_words():
    drawing = columns(chart((30, 10), mark=(35,)))

    svg = render_to_string("operations/_chart.html", {"drawing": drawing})

    assert 'aria-label="Some &lt;numbers&gt;. In all: one 30, other 10, mark 35.' in svg
    assert 'fill="url(#c-hatch)"' in svg
    assert "style=" not in svg
    assert "<script" not in svg
