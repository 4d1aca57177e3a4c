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
