"""A model's text as HTML: set nicely where it can be, inert whatever it is, and never slow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies

from reports import markdown
from tests.pages.paths import job_path
from tests.support import html
from tests.support.rows import job_in

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api

ALLOWED = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code"),
    *("strong", "em", "s", "a", "div", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"href", "title", "rel", "start", "class", "role", "aria-label", "tabindex"}
SCHEMES = ("http://", "https://", "mailto:")
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src='https://evil.example'></iframe>",
    "<form action='https://evil.example'><input name=password></form>",
    "<style>*{display:none}</style>",
    "<base href='https://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<a href='javascript:alert(1)'>click</a>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](java\nscript:alert(1))",
    "[click](&#106;avascript:alert(1))",
    "[click](javascript&colon;alert(1))",
    "[click](vbscript:msgbox(1))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[click](file:///etc/passwd)",
    "[click](//evil.example)",
    "[click](/admin/logout/)",
    "[click](ftp://evil.example)",
    "![pixel](https://evil.example/pixel.png)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[![x](https://evil.example/a.png)](javascript:alert(1))",
    "<javascript:alert(1)>",
    "<https://evil.example/'onmouseover='alert(1)>",
    '[x](https://evil.example "t\\" onmouseover=\\"alert(1)")',
    "```html onload=alert(1)\n<script>alert(1)</script>\n```",
    "`<script>alert(1)</script>`",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "# <script>alert(1)</script>\n> <object data=x>",
    "[ref]: javascript:alert(1)\n[ref]",
    "<!-- <script>alert(1)</script> -->",
    "<div style='position:fixed;inset:0'>over everything</div>",
    "\u202e<script>alert(1)</script>",
]
# Each takes a naive reader seconds or minutes.
TANGLED = {
    "brackets": "[" * 100_000,
    "brackets, closed": "[" * 50_000 + "]" * 50_000,
    "links": "[a](" * 25_000,
    "links in links": "[a" * 20_000 + "](b)" * 15_000,
    "images": "![" * 50_000,
    "emphasis": "*a_ " * 25_000,
    "emphasis in emphasis": "*" * 49_999 + "a" + "*" * 49_999,
    "table": "|a" * 1000 + "\n" + "|-" * 1000 + "\n" + ("|a" * 1000 + "\n") * 47,
}
DEEP = {
    "quotes": ">" * 60 + " inside",
    "lists": "".join("  " * depth + "- a\n" for depth in range(60)) + "  " * 60 + "- inside",
    "emphasis": "*" * 99 + "inside" + "*" * 99,
}


def assert_inert(rendered: str) -> None:
    """Nothing in it that runs, loads, submits, covers or leads to anything but a web page."""
    for tag, attributes in html.read_text(rendered).tags:
        assert tag in ALLOWED
        assert set(attributes) <= ATTRIBUTES
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(SCHEMES)
            assert attributes["rel"] == "noopener nofollow"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert(text: str):
    rendered = markdown.render(text)

    assert rendered is not None
    assert_inert(rendered)


@pytest.mark.property
@given(strategies.text(alphabet="<>&\"'[]()!*_`~#|-+=:\\/ \n\taj1{}^$", max_size=120))
def test_any_text_is_inert(text: str):
    assert_inert(markdown.render(text) or "")


def test_markup_is_shown_as_it_was_written():
    page = html.read_text(markdown.render("a <b onclick=x>bold</b> <script>move</script>") or "")

    assert page.words == "a <b onclick=x>bold</b> <script>move</script>"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a **b** *c* ~~d~~ `e`", ["p", "strong", "em", "s", "code"]),
        ("- a\n- b\n", ["ul", "li", "li"]),
        ("> a\n\n---", ["blockquote", "p", "hr"]),
        ("one\ntwo", ["p", "br"]),
        ("```py\nx\n```", ["pre", "code"]),
        ("[a](https://b.example 'c')", ["p", "a"]),
        ("![a](https://b.example/c.png)", ["p", "a"]),
    ],
)
def test_markdown_is_set(text: str, tags: list[str]):
    assert [tag for tag, _ in html.read_text(markdown.render(text) or "").tags] == tags


def test_a_table_keeps_its_alignment_and_is_within_reach_of_a_keyboard():
    page = html.read_text(markdown.render("|a|b|c|\n|-|-:|:-:|\n|1|2|3|") or "")

    cells = [attributes.get("class") for tag, attributes in page.tags if tag == "td"]
    assert cells == [None, "right", "center"]
    assert page.tags[0] == (
        "div",
        {"role": "group", "aria-label": "Table", "class": "wide", "tabindex": "0"},
    )


def test_a_list_begins_where_the_model_began():
    assert '<ol start="7">' in str(markdown.render("7. a\n8. b"))


def test_headings_stand_below_the_pages_own_without_a_gap():
    rendered = markdown.render("#### a\n\n# b\n\n###### c\n\n## d\n\n### e\n\n# f\n\nx\n---")

    tags = [tag for tag, _ in html.read_text(rendered or "").tags if tag[0] == "h" and tag != "hr"]
    assert tags == ["h3", "h3", "h4", "h4", "h5", "h3", "h4"]


def test_no_line_is_taken_for_a_definition_and_lost():
    page = html.read_text(markdown.render("[Alice]: Hello!\n[Bob]: Hi!") or "")

    assert page.words == "[Alice]: Hello! [Bob]: Hi!"


@pytest.mark.parametrize("name", TANGLED)
def test_a_tangled_text_takes_no_more_than_its_time(name: str):
    text = TANGLED[name]
    assert len(text) <= markdown.LONGEST

    began_s = time.thread_time()
    markdown.render(text)

    # Without the limit the worst of them take 20 s and more. What comes after the last look at the
    # clock is not in it, so a machine that is busy may need three times as long as it allows.
    assert time.thread_time() - began_s < 12 * markdown.PATIENCE_S


@pytest.mark.parametrize("name", DEEP)
def test_a_text_of_which_a_part_would_be_dropped_is_not_set(name: str):
    assert markdown.render(DEEP[name]) is None


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_text_of_which_nothing_would_be_seen_is_not_set(text: str):
    assert markdown.render(text) is None


def test_a_text_beyond_the_limit_is_not_read():
    assert markdown.render("a" * markdown.LONGEST) is not None
    assert markdown.render("a" * (markdown.LONGEST + 1)) is None


@pytest.mark.django_db
def test_a_text_of_a_mebibyte_is_shown_whole_and_escaped(browser: Client, ada: Api):
    text = "<b>" + "long " * 209_714
    job = job_in("succeeded", user=ada.user, result_text=text)

    began_s = time.thread_time()
    response = browser.get(job_path(job))

    assert time.thread_time() - began_s < 1
    assert "&lt;b&gt;" + "long " * 209_714 in response.content.decode()
