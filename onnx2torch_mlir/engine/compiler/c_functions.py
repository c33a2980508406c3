"""The functions that a C program calls: open, run, free and close, as ahead_of_time/header.py declares them.

A *model* is one block of memory: the mapped weights' file, its threads, slots for contexts, and the words of the weights as
every call takes them (see runtime.py). A call takes a context out of a slot, or makes one, and puts it back: so calls may run
side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine.ahead_of_time import interface as c
from onnx2torch_mlir.engine.ahead_of_time.interface import Interface
from onnx2torch_mlir.engine.compiler import c_outputs, c_pool, processor, walks
from onnx2torch_mlir.engine.compiler.arguments import words_read
from onnx2torch_mlir.engine.compiler.c_code import POINTER, Fragment, Function, Value
from onnx2torch_mlir.engine.compiler.c_errors import fail, given_error
from onnx2torch_mlir.engine.compiler.c_inputs import Inputs
from onnx2torch_mlir.engine.compiler.walks import functions, symbol
from onnx2torch_mlir.engine.layout import CONTEXT_BYTES, ENTRY, ERROR, FREE, NEXT, OUT_OF_MEMORY, RAW, STOPPER, WORKER

_MAP, _SIZE, _THREADS, _POOL, _SLOTS, _SLOT_COUNT = 0, 8, 16, 24, 64, 16
_WORDS = _SLOTS + 8 * _SLOT_COUNT
"""Where a model has what, in bytes; after the words of the weights come the pointers of the packed ones."""

_CONTEXT_ROOM = CONTEXT_BYTES + 64
"""Where a context's words begin: those of the arguments, then where results go, the packed weights, then the results."""


def append(module: ir.Module, interface: Interface, messages: Sequence[str], packed: int) -> None:
    """Add the functions to a module in the LLVM dialect that has the entry, which becomes internal."""
    walks.append(module, str(_Writer(interface, messages, packed).fragment))
    for function in functions(module):
        if symbol(function) in (ENTRY, WORKER, STOPPER, "_mlir_ciface_main"):
            function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")


def weights_read(module: ir.Module, interface: Interface) -> list[int]:
    """The numbers of the weights that @main (in the LLVM dialect) reads as they are, not only packed; all if in doubt."""
    everything = list(range(len(interface.weights)))
    read = words_read(module)
    if read is None:
        return everything
    starts = [interface.input_words]
    for shape in interface.weights:
        starts.append(starts[-1] + 1 + len(shape))
    return [number for number in everything if starts[number] in read]


class _Writer:
    """The fragment with all functions of one interface."""

    def __init__(self, interface: Interface, messages: Sequence[str], packed: int) -> None:
        self.fragment = Fragment()
        self._interface = interface
        self._messages = messages
        self._packed = packed
        self._target_word = interface.input_words + interface.weight_words
        self._results_at = _CONTEXT_ROOM + 8 * (self._target_word + 2 + packed)
        self._flags_at = self._results_at + 8 * interface.result_words
        if interface.features:
            processor.support(self.fragment, "o2m_c_supported", interface.features)
        self._inputs = Inputs(self.fragment, interface.inputs)
        c_outputs.define_collect(self.fragment, interface.outputs, self._results_at, self._flags_at)
        c_outputs.define_free(self.fragment, f"{interface.prefix}_free", len(interface.outputs))
        c_pool.define(self.fragment)
        self._make()
        self._drop()
        self._open()
        self._close()
        self._run()

    def _make(self) -> None:
        """``context o2m_c_make(model)``: a new context, or null."""
        with self.fragment.function("o2m_c_make", [POINTER], POINTER) as f:
            (model,) = f.arguments
            flags = 8 * len(self._interface.outputs)
            raw = f.get("calloc", f.number(1), f.number(self._flags_at + flags + 64), result=POINTER)
            with f.when(raw.equals(0)):
                f.give(raw)
            # The 64 bytes before the words are for this: the context begins at a multiple of 64, malloc's pointer is kept.
            context = ((raw.as_number() + 63) & -64).as_pointer()
            context.store(raw, CONTEXT_BYTES)
            words = context.at(_CONTEXT_ROOM)
            given = 8 * self._interface.weight_words
            f.call("memcpy", words.at(8 * self._interface.input_words), model.at(_WORDS), f.number(given), result=POINTER)
            words.store(context.at(self._results_at), 8 * self._target_word)
            words.store(context.at(self._flags_at), 8 * self._target_word + 8)
            packed = words.at(8 * self._target_word + 16)
            f.call("memcpy", packed, model.at(_WORDS + given), f.number(8 * self._packed), result=POINTER)
            c_pool.allow(context, model.load(_THREADS), model.load(_POOL, POINTER))
            f.give(context)

    def _drop(self) -> None:
        """``o2m_c_drop(context)``: give its memory back."""
        with self.fragment.function("o2m_c_drop", [POINTER]) as f:
            (context,) = f.arguments
            with f.each(context.load(8 * FREE, POINTER), 8 * NEXT) as block:
                f.call("free", block.load(8 * RAW, POINTER))
            f.call("free", context.load(CONTEXT_BYTES, POINTER))
            f.give()

    def _open(self) -> None:
        """``model open(path, threads, error)``; null after a failure."""
        name = self._interface.prefix
        with self.fragment.function(f"{name}_open", [POINTER, "i32", POINTER], POINTER, exported=True) as f:
            path, threads, error = f.arguments
            error = given_error(f, error)
            null = f.null()
            if self._interface.features:
                with f.when(f.get("o2m_c_supported", result="i1").equals(0)):
                    told = ", ".join(self._interface.features)
                    text = f"{name} was compiled for a processor with {told}; this one lacks some of it"
                    fail(f, error, c.BAD_PROCESSOR, text, give=null)
            with f.when(threads.below(0)):
                text = "threads is %lld, it has to be at least 0"
                fail(f, error, c.BAD_ARGUMENT, text, threads.widened(), give=null)
            with f.when(path.equals(0)):
                fail(f, error, c.BAD_ARGUMENT, "there is no path of the weights' file", give=null)
            # O_RDONLY | O_CLOEXEC, SEEK_END, PROT_READ, MAP_SHARED: Linux
            file = f.get("open", path, f.number(0o2000000, "i32"), result="i32")
            with f.when(file.below(0)):
                number = f.get("__errno_location", result=POINTER).load(0, "i32")
                reason = f.get("strerror", number, result=POINTER)
                fail(f, error, c.BAD_FILE, "%s cannot be opened: %s", path, reason, give=null)
            size = f.get("lseek", file, f.number(0), f.number(2, "i32"))
            long = f.choose(size.below(1), f.number(1), size)
            flags = [f.number(1, "i32"), f.number(1, "i32")]
            map_ = f.get("mmap", null, long, *flags, file, f.number(0), result=POINTER)
            f.get("close", file, result="i32")
            with f.when(map_.as_number().equals(-1)):
                fail(f, error, c.BAD_FILE, "%s cannot be mapped into memory", path, give=null)

            def close(form: str, *values: Value, code: int = c.BAD_FILE) -> None:
                f.get("munmap", map_, long, result="i32")
                fail(f, error, code, form, *values, give=null)

            parts = len(self._interface.weights) + self._packed
            head = c.MAGIC + self._interface.identity
            with f.when(size.below(c.OFFSETS + 8 * parts)):
                close(f"%s is no weights' file of {name}, or cut short", path)
            differs = f.get("memcmp", map_, f.text(head), f.number(len(head)), result="i32")
            with f.when(differs.differs(0)):
                close(f"%s does not belong to this code of {name}; both have to come from one run of the compiler", path)
            total, count = map_.load(c.TOTAL), map_.load(c.COUNT)
            with f.when(total.differs(size) | count.differs(parts)):
                close("%s is damaged: it has %lld bytes instead of %lld", path, size, total)
            words = self._interface.weight_words + self._packed
            model = f.get("calloc", f.number(1), f.number(_WORDS + 8 * words), result=POINTER)
            with f.when(model.equals(0)):
                close("there is not enough memory to open the model", code=c.NO_MEMORY)
            model.store(map_, _MAP)
            model.store(size, _SIZE)
            count = f.get(c_pool.COUNT, threads.widened())
            model.store(count, _THREADS)
            table = f.numbers(self._template())
            with f.loop(words) as number:
                value = table.at(number * 8).load()
                model.at(number * 8).store(value, _WORDS)
                with f.when(value.below(0)):
                    offset = map_.at((f.number(-1) - value) * 8).load(c.OFFSETS)
                    model.at(number * 8).store(map_.at(offset), _WORDS)
            model.store(f.get(c_pool.START, count, result=POINTER), _POOL)
            f.give(model)

    def _template(self) -> list[int]:
        """The words of the weights: their sizes, and -1 less the number of a part of the file where its address goes."""
        words: list[int] = []
        for number, shape in enumerate(self._interface.weights):
            words += [-1 - number, *shape]
        return words + [-1 - len(self._interface.weights) - number for number in range(self._packed)]

    def _close(self) -> None:
        """``close(model)``."""
        with self.fragment.function(f"{self._interface.prefix}_close", [POINTER], exported=True) as f:
            (model,) = f.arguments
            with f.when(model.differs(0)):
                with f.loop(_SLOT_COUNT) as slot:
                    context = model.at(slot * 8).load(_SLOTS, POINTER)
                    with f.when(context.differs(0)):
                        f.call("o2m_c_drop", context)
                pool = model.load(_POOL, POINTER)
                with f.when(pool.differs(0)):
                    f.call(c_pool.END, pool)
                f.get("munmap", model.load(_MAP, POINTER), model.load(_SIZE), result="i32")
                f.call("free", model)
            f.give()

    def _run(self) -> None:
        """``i32 run(model, inputs, outputs, error)``."""
        name, size = self._interface.prefix, c.TENSOR_BYTES * len(self._interface.outputs)
        with self.fragment.function(f"{name}_run", [POINTER] * 4, "i32", exported=True) as f:
            model, given, outputs, error = f.arguments
            error = given_error(f, error)
            missing = model.equals(0) | outputs.equals(0)
            with f.when(missing | given.equals(0) if self._interface.inputs else missing):
                text = f"{name}_run needs a model, inputs and outputs"
                fail(f, error, c.BAD_ARGUMENT, text)
            f.call("memset", outputs, f.number(0, "i32"), f.number(size), result=POINTER)
            self._inputs.check(f, given, error)
            context = f.get("o2m_c_take", model, result=POINTER)
            with f.when(context.equals(0)):
                fail(f, error, c.NO_MEMORY, "there is not enough memory for a call")
            words = context.at(_CONTEXT_ROOM)
            self._inputs.pack(f, given, words)
            self._tell(f, model, context, outputs, error, f.get(ENTRY, context, words, result="i32"))
        self._take()
        self._give_back()

    def _tell(self, f: Function, model: Value, context: Value, outputs: Value, error: Value, failed: Value) -> None:
        """What a call gives: the results, or why there are none."""
        with f.when(failed.differs(0)):
            index = context.load(8 * ERROR)
            f.call("o2m_c_give_back", model, context)
            with f.when(index.equals(OUT_OF_MEMORY)):
                fail(f, error, c.NO_MEMORY, "there is not enough memory for an intermediate result")
            starts, blob = [], b""
            for message in self._messages:
                starts.append(len(blob))
                blob += message.encode() + b"\0"
            found = f.text(blob).at(f.numbers(starts).at(index * 8).load())
            fail(f, error, c.REQUIREMENT, "%s", found)
        missing = f.get("o2m_c_collect", context, outputs, result="i32")
        f.call("o2m_c_give_back", model, context)
        with f.when(missing.differs(0)):
            f.call(f"{self._interface.prefix}_free", outputs)
            fail(f, error, c.NO_MEMORY, "there is not enough memory for an output")
        f.give(f.number(0, "i32"))

    def _take(self) -> None:
        """``context o2m_c_take(model)``: one that no other call has, or null."""
        with self.fragment.function("o2m_c_take", [POINTER], POINTER) as f:
            (model,) = f.arguments
            null = f.null()
            with f.loop(_SLOT_COUNT) as slot:
                found = model.at(slot * 8).at(_SLOTS).exchange(null)
                with f.when(found.differs(0)):
                    f.give(found)
            f.give(f.get("o2m_c_make", model, result=POINTER))

    def _give_back(self) -> None:
        """``o2m_c_give_back(model, context)``: for the next call."""
        with self.fragment.function("o2m_c_give_back", [POINTER, POINTER]) as f:
            model, context = f.arguments
            held = f.memory(8)
            held.store(context)
            with f.loop(_SLOT_COUNT) as slot:
                # What was in the slot moves on to the next.
                held.store(model.at(slot * 8).at(_SLOTS).exchange(held.load(0, POINTER)))
                with f.when(held.load(0, POINTER).equals(0)):
                    f.give()
            f.call("o2m_c_drop", held.load(0, POINTER))
            f.give()
