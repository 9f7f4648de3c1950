"""The tables that a generated project is made of, and an interpreter for them."""
