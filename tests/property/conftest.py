"""The machine's assertions speak like those of tests."""

import pytest

pytest.register_assert_rewrite("tests.property.books")
