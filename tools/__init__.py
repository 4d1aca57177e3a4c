"""Programs of the Makefile, which start what a fresh machine lacks. No part of the product."""
