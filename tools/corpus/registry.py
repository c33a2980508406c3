"""All subjects: the ``SUBJECTS`` of the modules in ``shipped`` and ``architectures``."""

from __future__ import annotations

import importlib
import pkgutil

from tools.corpus import architectures, shipped
from tools.corpus.subject import Subject


def subjects() -> dict[str, tuple[Subject, str]]:
    """Every subject by name, with the name of the module that lists it.

    Raises:
        ValueError: where two subjects have one name.
    """
    found: dict[str, tuple[Subject, str]] = {}
    for package in (shipped, architectures):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for subject in getattr(importlib.import_module(info.name), "SUBJECTS", ()):
                if subject.name in found:
                    raise ValueError(f"two subjects are named {subject.name}: in {found[subject.name][1]} and {info.name}")
                found[subject.name] = (subject, info.name)
    return found


def subject(module: str, name: str) -> Subject:
    """The subject ``name`` of ``module``."""
    listed: tuple[Subject, ...] = importlib.import_module(module).SUBJECTS
    return next(item for item in listed if item.name == name)
