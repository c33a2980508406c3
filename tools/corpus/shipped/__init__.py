"""Trained models inside packages of PyPI and npm, each module with its ``SUBJECTS``."""
