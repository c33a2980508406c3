"""Converters as the binder sees them: what a function's signature says about inputs, attributes and options."""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx2torch_mlir.core.parameters import Need
from onnx2torch_mlir.diagnostics import refuse

RESERVED = frozenset({"wanted", "opset", "node", "written", "enclosing"})
"""Keyword parameters that the framework fills: ``wanted`` (which outputs the node asks for: a tuple of bools), ``opset``
(the since_version of the operator), ``node`` (a `NodeRef`), ``written`` (the names of the attributes that the node
states), ``enclosing`` (the graph around it: an `EnclosingGraph`)."""


@dataclass(frozen=True)
class Input:
    """One input parameter."""

    name: str
    need: Need | None
    optional: bool
    variadic: bool


@dataclass(frozen=True)
class Handler:
    """A converter with its signature taken apart; ``sequences`` are the keywords that may be any sequence, not only a list."""

    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    keywords: frozenset[str]
    required: frozenset[str]
    sequences: frozenset[str]


@functools.cache
def load_handler(target: str) -> Handler:
    """The converter at a dotted path.

    Raises:
        Refusal: O2M-S006 where there is none, or its module cannot be imported.
    """
    module_name, _, name = target.rpartition(".")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise refuse("O2M-S006", f"{target} does not exist: {error}", case=target) from error
    except Exception as error:  # a plug-in's module may raise anything
        reason = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        raise refuse("O2M-S006", reason, case=target) from error
    return inspect_handler(function)


def inspect_handler(function: Callable[..., Any]) -> Handler:
    """``function(g, *inputs, **keywords)`` taken apart; `Need` annotations say which inputs must be known.

    Keywords are named one by one, or as those of a ``TypedDict``: ``**window: Unpack[ConvAttributes]`` (PEP 692).

    Raises:
        Refusal: O2M-S006 for keywords that are not named.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    inputs = []
    keywords, required = set(), set()
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords.add(parameter.name)
            if parameter.default is parameter.empty and parameter.name not in RESERVED:
                required.add(parameter.name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            attributes = _attributes(hints.get(parameter.name))
            if attributes is None:
                raise refuse("O2M-S006", "a converter names its attributes", case=function.__qualname__)
            keywords |= typing.get_type_hints(attributes).keys()
            required |= attributes.__required_keys__
        else:
            need = _need(hints.get(parameter.name))
            variadic = parameter.kind is parameter.VAR_POSITIONAL
            optional = parameter.default is not parameter.empty
            inputs.append(Input(parameter.name, need, optional, variadic))
    sequences = frozenset(name for name in keywords if typing.get_origin(hints.get(name)) is Sequence)
    return Handler(function, tuple(inputs), frozenset(keywords), frozenset(required), sequences)


def _attributes(hint: Any) -> Any:
    """The ``TypedDict`` in ``Unpack[TypedDict]``."""
    if typing.get_origin(hint) is not typing.Unpack:
        return None
    (inner,) = typing.get_args(hint)
    return inner if typing.is_typeddict(inner) else None


def _need(hint: Any) -> Need | None:
    for candidate in (hint, *typing.get_args(hint)):
        for item in getattr(candidate, "__metadata__", ()):
            if isinstance(item, Need):
                return item
    return None
