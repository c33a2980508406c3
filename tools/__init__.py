"""What maintainers run: `python -m tools.suite`, and the like."""
