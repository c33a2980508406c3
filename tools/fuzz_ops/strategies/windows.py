"""Convolutions and pools: windows with strides, dilations, pads and auto_pad that fit their images."""

from __future__ import annotations

from dataclasses import dataclass

from tools.fuzz_ops.draw import Draw


@dataclass
class Window:
    """A drawn window over an image; ``same`` says that auto_pad decides the pads."""

    kernel: list[int]
    image: list[int]


def window(d: Draw, rank: int, *, kernel_attribute: bool, transposed: bool = False, ceil: bool = False) -> Window:
    """Draw the attributes of a window and the sizes of an image that it fits into."""
    kernel = [d.integer(1, 3) for _ in range(rank)]
    strides = [d.integer(1, 3) for _ in range(rank)]
    dilations = [d.integer(1, 2) for _ in range(rank)]
    # Without the attribute the kernel is the weight's shape, which must then be known.
    if kernel_attribute or d.symbolic != "no" or d.flag():
        d.attributes["kernel_shape"] = kernel
    if d.flag():
        d.attributes["strides"] = strides
    if d.has_attribute("dilations") and d.flag():
        d.attributes["dilations"] = dilations
    else:
        dilations = [1] * rank
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    padding = d.choose(("no", "pads", "auto"))
    if padding == "pads":
        # Less than the window, so that no place sees padding only.
        d.attributes["pads"] = [d.integer(0, size - 1) for size in (*kernel, *kernel)]
    elif padding == "auto":
        options = ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]
        d.attributes["auto_pad"] = d.choose(options)
        if ceil and d.attributes["auto_pad"].startswith("SAME") and "strides" in d.attributes:
            # SAME with a step beyond the kernel would take negative padding, which a pool does not define.
            d.attributes["strides"] = [min(step, size) for step, size in zip(strides, kernel, strict=True)]
    if ceil and d.attributes.get("auto_pad", "NOTSET") == "NOTSET":
        d.attribute("ceil_mode", 1, 0)
    least = [1] * rank if transposed else extent
    return Window(kernel, [size + d.integer(0, 6) for size in least])


def conv(d: Draw) -> None:
    """Conv: groups, bias or none."""
    rank = d.integer(1, 3)
    found = window(d, rank, kernel_attribute=False)
    group, per_group, filters = _groups(d)
    d.tensor("X", (d.size(0, 3), group * per_group, *found.image))
    d.tensor("W", (group * filters, per_group, *found.kernel), known=d.flag())
    if d.flag():
        d.tensor("B", (group * filters,), known=d.flag())


def _groups(d: Draw) -> tuple[int, int, int]:
    group = d.choose((1, 1, 2, 3))
    if group > 1:
        d.attributes["group"] = group
    return group, d.integer(1, 3), d.integer(1, 3)


def conv_transpose(d: Draw) -> None:
    """ConvTranspose: output_padding or output_shape as well."""
    rank = d.integer(1, 2)
    found = window(d, rank, kernel_attribute=False, transposed=True)
    group, per_group, filters = _groups(d)
    strides = d.attributes.get("strides", [1] * rank)
    if d.one_in(3):
        d.attributes["output_padding"] = [d.integer(0, stride - 1) for stride in strides]
    d.tensor("X", (d.size(0, 3), group * per_group, *found.image))
    d.tensor("W", (group * per_group, filters, *found.kernel), known=d.flag())
    if d.flag():
        d.tensor("B", (group * filters,))


def conv_integer(d: Draw) -> None:
    """ConvInteger: zero points absent, or of both inputs."""
    rank = d.integer(1, 2)
    found = window(d, rank, kernel_attribute=False)
    group, per_group, filters = _groups(d)
    x, w = d.dtype("T1"), d.dtype("T2")
    d.give("x", d.array(x, (d.size(0, 2), group * per_group, *found.image)))
    d.give("w", d.array(w, (group * filters, per_group, *found.kernel)), known=d.flag())
    if d.flag():
        d.give("x_zero_point", d.array(x, (), 0, 5), static=True)
        if d.flag():
            d.give("w_zero_point", d.array(w, (), 0, 5) if x != "int8" else d.array(w, (), 0, 0), static=True)


def qlinear_conv(d: Draw) -> None:
    """QLinearConv: scales of the tensor, of w also of each channel."""
    rank = d.integer(1, 2)
    found = window(d, rank, kernel_attribute=False)
    group, per_group, filters = _groups(d)
    channel = (group * filters,) if d.flag() else ()
    x, w, y = d.dtype("T1"), d.dtype("T2"), d.dtype("T3")
    d.give("x", d.array(x, (d.size(0, 2), group * per_group, *found.image)))
    _quantized(d, "x", x, ())
    d.give("w", d.array(w, (group * filters, per_group, *found.kernel)), known=d.flag())
    _quantized(d, "w", w, channel, zero=w == "int8")
    _quantized(d, "y", y, ())
    if d.flag():
        d.tensor("B", (group * filters,), low=-100, high=100)


def _quantized(d: Draw, name: str, dtype: str, shape: tuple[int, ...], *, zero: bool = False) -> None:
    d.give(f"{name}_scale", d.array("float", shape, 0.02, 0.7), known=d.flag(), static=True)
    d.give(f"{name}_zero_point", d.array(dtype, shape, 0, 0 if zero else 9), known=d.flag(), static=True)


def pool(d: Draw) -> None:
    """MaxPool, AveragePool, LpPool: with the indices of MaxPool."""
    found = window(d, d.integer(1, 3), kernel_attribute=True, ceil=True)
    d.attribute("count_include_pad", 1, 0)
    if d.version.op == "LpPool":
        d.attribute("p", *((1, 2, 3) if d.version.since_version >= 2 else (1.0, 2.0, 3.0)))
    if d.version.op == "MaxPool" and d.version.since_version >= 8 and d.flag():
        d.attribute("storage_order", 1, 0)
        d.outputs = (True, True)
    d.tensor("X", (d.size(0, 3), d.size(1, 3), *found.image))


def global_pool(d: Draw) -> None:
    """GlobalAveragePool, GlobalMaxPool, GlobalLpPool."""
    d.attribute("p", *((1, 2, 3) if d.version.since_version >= 2 else (1.0, 2.0, 3.0)))
    d.tensor("X", (d.size(0, 3), d.size(0, 3), *(d.size(1, 7) for _ in range(d.integer(1, 3)))))


STRATEGIES = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "MaxPool": pool,
    "AveragePool": pool,
    "LpPool": pool,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
    "GlobalLpPool": global_pool,
}
