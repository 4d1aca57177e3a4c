"""What the product is compared with: the design it grew from, and the same the stock way."""
