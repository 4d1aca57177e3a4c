"""`make chaos`: the real processes under load while everything around them breaks, and two books
that are kept independently of the product: the provider's call log and plain SQL.
"""
