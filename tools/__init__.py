"""Programs of the Makefile: they start what a fresh machine does not have. The product imports nothing from here."""
