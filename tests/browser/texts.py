"""Texts as models write them, the kind and the hostile."""

from __future__ import annotations

ARTICLE = """\
# Why the sky is blue

Sunlight is a mixture of **all colours**. In the air it meets molecules that are much smaller \
than its waves, and these *scatter* short waves far more than long ones[^1].

### Rayleigh's law

The scattered share grows with the fourth power of the frequency:

| Colour | Wavelength (nm) | Scattered, relative to red |
| :----- | --------------: | :------------------------: |
| Red | 700 | 1 |
| Green | 550 | 2.6 |
| Violet, which the eye sees badly and the upper atmosphere takes away | 400 | 9.4 |

1. Blue light arrives from everywhere.
2. Red light goes straight on:
   - which is why sunsets are red,
   - and why `traffic lights` chose it.

> The sky is not blue because the sea is.

## In code

```python
def scattered(wavelength_nm: float, reference_nm: float = 700.0) -> float:
    return (reference_nm / wavelength_nm) ** 4  # longer than any telephone is wide, by far
```

---

More: <https://example.org/rayleigh>, or [write](mailto:sky@example.org "to us"). ~~Nothing~~ else.
"""

# Each sets `hurt`, opens a dialog, or asks another machine, if anything of it runs or loads.
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror='window.hurt = 2'>",
    "<svg/onload=alert(3)>",
    "<iframe src='https://evil.example/frame'></iframe>",
    "<form action='https://evil.example/form'><input autofocus onfocus=alert(4)></form>",
    "<style>@import 'https://evil.example/sheet'; * { display: none }</style>",
    "<base href='https://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/refresh'>",
    "<a href='javascript:window.hurt = 5'>a link</a>",
    "[script](javascript:window.hurt=6)",
    "[script](JaVaScRiPt:alert(7))",
    "[script](&#106;avascript:alert(8))",
    "[script](javascript&colon;alert(9))",
    "[script](vbscript:alert(10))",
    "[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[ours](/logout/)",
    "[theirs](//evil.example/link)",
    "[file](file:///etc/passwd)",
    "<javascript:alert(11)>",
    "![pixel](https://evil.example/pixel.png)",
    "![data](data:image/svg+xml,<svg onload=alert(12)>)",
    "[![x](https://evil.example/a.png)](javascript:alert(13))",
    '[x](https://evil.example/ "t\\" onmouseover=\\"alert(14)")',
    "```html onload=alert(15)\n<script>alert(16)</script>\n```",
    "| <script>alert(17)</script> |\n|---|\n| <img src=x onerror=alert(18)> |",
    "<details open ontoggle=alert(19)>",
    "<div style='position:fixed;inset:0;background:red' onclick=alert(20)>over everything</div>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img onerror=alert(1)>'>",
]
