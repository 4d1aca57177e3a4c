"""Programs that show or measure something about the product; none is part of it."""
