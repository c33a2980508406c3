"""The worker's task: a module in, an object file out."""

from __future__ import annotations

import functools
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler import (
    added_products,
    arena,
    arguments,
    asking_loops,
    assertions,
    borders,
    brain_floats,
    channels_last,
    constant_arguments,
    contexts,
    contraction_standard,
    contractions,
    derivation,
    destinations,
    factors,
    far_taps,
    floats,
    fusion,
    independent_loops,
    integer_contractions,
    joined_parts,
    kernels,
    layout_casts,
    library_math,
    long_chains,
    long_sums,
    loop_order,
    lower_to_llvm,
    memory,
    object_code,
    parallel_loops,
    passes,
    pixel_rooms,
    pointer_chasing,
    pool_code,
    pool_workers,
    profiling,
    repeated_calls,
    reshaped_nests,
    rows,
    runtime,
    saturation,
    separate_windows,
    sequential_loops,
    short_loops,
    single_pixels,
    single_rounding,
    standard_code,
    tail_calls,
    truth_values,
    turns,
    vector_expansion,
    wide_operands,
    window_sums,
    windows,
)
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import append, functions, named, symbol
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.derived import Derived
from onnx2torch_mlir.engine.layout import CALLED, ENTRY, Packing
from onnx2torch_mlir.engine.options import Options

if TYPE_CHECKING:
    from onnx2torch_mlir.engine.ahead_of_time.interface import Interface

_DEFAULT = Options()


@dataclass
class Times:
    """Seconds that each stage took."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def stage(self, name: str) -> None:
        """The stage ``name`` ends here."""
        now = time.perf_counter()
        self.seconds[name] = round(now - self._last, 4)
        self._last = now


def build(program: bytes, options: Options = _DEFAULT, interface: Interface | None = None) -> dict[str, Any]:
    """Compile the module of a `Lowered` (bytecode or text); with ``interface`` the object is for C programs.

    Returns ``object`` (the object file), ``messages`` (of the assertions, by number), ``results`` (the rank of each
    result), ``packings`` (the fields of each `Packing`), ``derived`` (for each weight that is computed from others its shape,
    whether the code reads it as it is, and its steps), ``sites`` (the nodes with clocks, by number), ``seconds`` (by
    stage) and ``weights`` (the numbers of those that are read unpacked too). Raises `Refusal` O2M-M001
    with the diagnostics of the pass that failed.
    """
    objects.assume(options.host)
    standard = _standard(options.level, objects.host())
    times = Times()
    diagnostics = passes.Diagnostics()
    with (
        WrittenCode(options.level) as written,
        loop_order.iterators_remembered(),
        contexts.new_context() as context,
        ir.Location.unknown(),
    ):
        context.attach_diagnostic_handler(diagnostics)
        with passes.findings_of("reading the module", diagnostics):
            module = ir.Module.parse(program)
            has_brain_floats = brain_floats.are_in(module)
        times.stage("parse")
        written.expect(_likely(module, standard) if options.enabled("contractions") else [])
        found = _to_loops(module, options, diagnostics, times, written, for_python=interface is None)
        main = next(f for f in functions(module) if symbol(f) == "main")
        signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        ranks = [ir.MemRefType(type_).rank for type_ in signature.results]
        walking = pointer_chasing.functions_that_chase(module)
        lower_to_llvm.mark_internal(module)
        passes.run(module, "conversion to LLVM", passes.LLVM, diagnostics, verify=False)
        with passes.findings_of("finishing the LLVM module", diagnostics):
            results = [3 + 2 * rank for rank in ranks]
            with_arena = options.enabled("arena")
            lower_to_llvm.finish(module, found.aliases, walking, found.words, results, with_arena=with_arena)
            if interface is not None:
                interface = interface.with_weights(found.derived)
            read = found.read
            if interface is not None:
                # Most programs are not for C: loading what these need is a tenth of the process' start.
                from onnx2torch_mlir.engine.compiler import c_functions

                read = c_functions.weights_read(module, interface)
                c_functions.append(module, interface, found.messages, len(found.packings))
            truth_values.as_bytes(module)
            if not module.operation.verify():
                raise ValueError("the LLVM module is not valid")
        times.stage("llvm dialect")
        with passes.findings_of("code generation", diagnostics):
            finished = brain_floats.as_bits(module) if has_brain_floats else module
            entry = interface.entry if interface is not None else ENTRY
            code = object_code.generate(finished, entry, written, seen=CALLED if interface is None else ())
        times.stage("llvm")
    packings = [list(asdict(packing).values()) for packing in found.packings]
    return {
        "object": code,
        "messages": found.messages,
        "results": ranks,
        "packings": packings,
        "derived": found.derived,
        "sites": found.sites,
        "seconds": times.seconds,
        "weights": read,
    }


def prepare() -> None:
    """Compile a program of a single nest, which loads what any program needs and leaves its routines in this process
    (written_code.py); then what most call (standard_code.py)."""
    options = Options(inputs=1)
    build(_LITTLE, options)
    standard_code.begin([group for group, _ in _standard(options.level, objects.host())])


@functools.cache
def _standard(level: int, host: str) -> list[tuple[standard_code.Group, bool]]:
    """The groups of standard code, and whether each is of convolutions."""
    found = contraction_standard.groups(of_host())
    known = standard_code.know(contraction_standard.DECLARED, [each.texts for each in found], level)
    return [(group, each.of_windows) for group, each in zip(known, found, strict=True)]


def _likely(module: ir.Module, standard: list[tuple[standard_code.Group, bool]]) -> list[standard_code.Group]:
    """Those that a module on tensors will probably ask for: what its sums of products are is known much later."""
    nests = named(module.operation, "linalg.generic")
    sums = [nest for nest in nests if _is_of_floats(nest) and window_sums.is_sum_of_products(nest)]
    has_windows = any(window_sums.convolution(nest) is not None for nest in sums)
    return [group for group, of_windows in standard if sums and of_windows == has_windows]


def _is_of_floats(nest: ir.Operation) -> bool:
    """Whether it gives one tensor of float32."""
    types = [result.type for result in nest.results]
    return len(types) == 1 and isinstance(ir.RankedTensorType(types[0]).element_type, ir.F32Type)


_LITTLE = b"""
  func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %sums = tensor.empty() : tensor<16xf32>
    %all = linalg.add ins(%x, %x : tensor<16xf32>, tensor<16xf32>) outs(%sums : tensor<16xf32>) -> tensor<16xf32>
    return %all : tensor<16xf32>
  }"""


@dataclass(frozen=True)
class _Loops:
    """What the rest needs of a module that is loops: the assertions' messages, the pointers of each kernel whose memory no
    other argument reaches, the number of words of the arguments, the weights that are packed, and the nodes with clocks."""

    messages: list[str]
    aliases: dict[str, list[int]]
    words: int
    packings: list[Packing]
    sites: list[str]
    derived: list[Derived]
    read: list[int]
    """The numbers of the weights that are read as they are, too."""


def _to_loops(
    module: ir.Module,
    options: Options,
    diagnostics: passes.Diagnostics,
    times: Times,
    written: WrittenCode,
    *,
    for_python: bool,
) -> _Loops:
    passes.run(module, "simplification", "inline," + passes.SIMPLIFY + ",symbol-dce", diagnostics, verify=False)
    names = [symbol(function) for function in functions(module)]
    if names != ["main"]:
        raise refuse("O2M-M001", f"the module holds the functions {names}; it has to hold @main and what inlines into it")
    times.stage("simplify")
    with passes.findings_of("operands of contractions", diagnostics):
        derived: list[derivation.Made] = []
        if options.enabled("contractions"):
            wide_operands.widen(module, options.inputs)
            added_products.merge(module, options.inputs)
            derived = derivation.derive(module, options.inputs)
    with passes.findings_of("fusion", diagnostics):
        if options.enabled("contractions"):
            factors.move(module)
            far_taps.skip(module)
        if options.enabled("channels_last"):
            channels_last.carry(module)
            single_pixels.merge_pixels(module)
        if options.enabled("windows"):
            separate_windows.separate(module)
        # Batches are expanded where what is turned is read in place; then turns before the batches were collapsed are met.
        fusion.read_in_place(module)
        reshaped_nests.expand_batches(module)
        fusion.read_in_place(module)
        fusion.fuse_pointwise(module)
        borders.fill_borders(module)
        if options.enabled("channels_last"):
            pixel_rooms.make(module)
        if options.enabled("long_sums"):
            long_sums.split(module)
        _protect_arguments(module)
    passes.run(module, "simplification after fusion", passes.SIMPLIFY, diagnostics)
    with passes.findings_of("destinations", diagnostics):
        destinations.separate(module)
        joined_parts.write_apart(module)
    times.stage("fusion")
    passes.run(module, "bufferization", passes.BUFFERIZE, diagnostics, verify=False)
    with passes.findings_of("layouts", diagnostics):
        layout_casts.copy_where_layouts_differ(module)
        layout_casts.carry_dense_buffers(module)
    passes.run(module, "simplification of buffers", passes.SIMPLIFY, diagnostics)
    times.stage("bufferize")
    with passes.findings_of("memory and assertions", diagnostics):
        call_context, places = arguments.pack(module)
        messages = assertions.replace_assertions(module, call_context)
        memory.free_buffers(module, call_context)
        routines = runtime.DECLARATIONS + runtime.fresh_memory(objects.host()) + runtime.FUNCTIONS
        pool = pool_code.DECLARATIONS + pool_code.FUNCTIONS + pool_workers.FUNCTIONS
        written.add(module, routines + pool + (repeated_calls.FUNCTIONS if for_python else ""))
        append(module, parallel_loops.DECLARATIONS)
    times.stage("memory")
    passes.run(module, "generalization", passes.GENERALIZE, diagnostics, verify=False)
    with passes.findings_of("float conversions", diagnostics):
        floats.legalize(module)
    passes.run(module, "legalization", passes.LEGALIZE, diagnostics)
    with passes.findings_of("float selections", diagnostics):
        floats.select_as_bits(module)
        single_rounding.use_multiply_add(module)
        saturation.convert_clamped(module)
    if options.enabled("vector_math"):
        with passes.findings_of("math functions", diagnostics):
            vector_expansion.expand(module)
    times.stage("legalize")
    with passes.findings_of("loop nests", diagnostics):
        weights = arguments.weights_of(module, places, options.inputs, [made.codes for made in derived])
        constant_arguments.give(module)
        marks = profiling.mark(module) if options.profile else None
        tails = Outlined(module, tail_calls.PREFIX)
        loops: list[ir.Operation] = []
        # Before the contractions, which small groups of channels would be else.
        if options.enabled("windows"):
            windows.replace(module, weights, written)
        if options.enabled("contractions"):
            also = {f"with_{name}": options.enabled(name) for name in ("winograd", "attention")}
            loops += contractions.replace(module, weights, tails, written, **also)
            integer_contractions.replace(module, weights, tails, written, with_winograd=also["with_winograd"])
        loops += independent_loops.replace(module)
        loops += turns.replace(module) if options.enabled("turns") else []
        loops += rows.fuse(module) if options.enabled("rows") else []
        aliases = dict(tails.exclusive)
        outlined = kernels.outline(module, loops)
        sites = profiling.measure(module, marks) if marks is not None else []
    times.stage("outline")
    passes.run(module, "loops", passes.LOOPS, diagnostics)
    with passes.findings_of("sharing loops among threads", diagnostics):
        shared = parallel_loops.share(module, outlined)
        sequential_loops.write(module, outlined | shared)
        asking_loops.write(module, outlined | shared)
        long_chains.mark(module, outlined | shared)
        short_loops.mark(module, outlined | shared)
        aliases |= outlined | shared
    with passes.findings_of("functions of the C library", diagnostics):
        library_math.call(module)
    if options.enabled("arena"):
        with passes.findings_of("places of buffers", diagnostics):
            arena.settle(module)
    times.stage("loops")
    read = arguments.words_read(module)
    made = [
        (one.shape, read is None or place in read, one.steps)
        for one, place in zip(derived, places[len(places) - 1 - len(derived) : -1], strict=True)
    ]
    own = places[options.inputs : len(places) - 1 - len(derived)]
    plain = [number for number, place in enumerate(own) if read is None or place in read]
    return _Loops(messages, aliases, places[-1], weights.packings, sites, made, plain)


def _protect_arguments(module: ir.Module) -> None:
    """Inputs and weights belong to the caller: nothing may be computed in place in them."""
    (main,) = functions(module)
    count = len(main.regions[0].blocks[0].arguments)
    unwritable = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([unwritable] * count)
