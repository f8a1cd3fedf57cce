"""Tables: rows of numbers and categories, dense or sparse."""
