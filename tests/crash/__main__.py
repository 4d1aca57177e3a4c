"""`python -m tests.crash`: the process whose children die; see `victim`."""

import django

django.setup()

from tests.crash import victim  # noqa: E402  # models can only be imported after the set-up

victim.main()
