"""Object files: what they need from outside, and loading them into this process, without a linker and without MLIR."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

_lock = threading.Lock()

ARCH_PRCTL, REQUEST_PERMISSION, TILES = 158, 0x1023, 18
"""Of Linux on x86-64: the number of the call arch_prctl, its code ARCH_REQ_XCOMP_PERM, and the state XFEATURE_XTILEDATA."""


def undefined_symbols(code: bytes) -> list[str]:
    """The routines that a 64-bit little-endian ELF object expects from outside; empty for other formats."""
    return sorted({name for name, _, section in _symbols(code) if section == 0} - {"_GLOBAL_OFFSET_TABLE_"})  # SHN_UNDEF


def hidden(code: bytes, prefix: str) -> bytes:
    """The object with its symbols that begin with ``prefix`` hidden: a shared library made of it does not offer them."""
    result = bytearray(code)
    for name, position, section in _symbols(code):
        if section and name.startswith(prefix):
            result[position + 5] = 2  # STV_HIDDEN
    return bytes(result)


def _symbols(code: bytes) -> Iterator[tuple[str, int, int]]:
    """The name of each symbol of an ELF object, where it is described, and its section."""
    if code[:6] != b"\x7fELF\x02\x01":
        return
    (sections,) = struct.unpack_from("<Q", code, 40)
    entry_size, count = struct.unpack_from("<HH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections + number * entry_size) for number in range(count)]
    for _, kind, _, _, offset, size, link, _, _, entry in headers:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for position in range(offset, offset + size, entry):
            name, _, _, section = struct.unpack_from("<IBBH", code, position)
            if name:
                start = names + name
                yield code[start : code.index(b"\0", start)].decode(), position, section


def unavailable(symbols: Iterable[str]) -> list[str]:
    """Those of ``symbols`` that this process does not offer. Loading an object that needs one would end the process."""
    binding = _binding()
    return [name for name in symbols if binding.address_of_symbol(name) is None]


class Code:
    """An object file in memory, ready to be called; it is gone when this is."""

    def __init__(self, code: bytes, entry: str) -> None:
        """Load ``code``; all symbols it needs must be available. ``entry`` is an ``i32 (ptr, ptr)`` function of it."""
        binding = _binding()
        with _lock:
            machine = binding.Target.from_default_triple().create_target_machine()
            self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
            self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
        self.entry = self.address(entry)
        """Where the entry is."""
        signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self.call: Callable[[int, int], int] = signature(self.entry)
        """The entry; the GIL is released for the time of a call."""

    def address(self, name: str) -> int:
        """Where the function ``name`` is; raises `ValueError` if there is none."""
        with _lock:
            address = int(self._engine.get_function_address(name))
        if not address:
            raise ValueError(f"the object has no function {name}")
        return address


_ready = False


def load() -> None:
    """Load what loads objects: a fiftieth of a second, which may pass while another process compiles."""
    _binding()


def _binding() -> Any:
    global _ready
    import llvmlite.binding as binding

    with _lock:
        if not _ready:
            binding.initialize_native_target()
            binding.initialize_native_asmprinter()
            # The first of these makes the symbols of this process known to the look-up.
            binding.create_mcjit_compiler(
                binding.parse_assembly(""), binding.Target.from_default_triple().create_target_machine()
            )
            _ready = True
    return binding


_assumed = ""


def assume(host_: str) -> None:
    """Make code for ``host_`` from now on: what another process, which will run it, found as its `host`."""
    global _assumed
    _assumed = host_


def host() -> str:
    """The processor that code is made for: its name and features, of which this process may use all, or what it assumes."""
    return _assumed or _own_host()


@functools.cache
def _own_host() -> str:
    binding = _binding()
    features = binding.get_host_cpu_features()
    if features.get("amx-tile") and not _may_use_tiles():
        features.update((name, False) for name in features if name.startswith("amx-"))
    return f"{binding.get_default_triple()} {binding.get_host_cpu_name()} {features.flatten()}"


@functools.cache
def machine() -> str:
    """What tells machines apart for which code is another, without LLVM where the system says it."""
    processor = _processor()
    return f"{processor} {_may_use_tiles()}" if processor else host()


def unlike_others() -> str:
    """The `host`, if this process may use less of it than another process on this machine; else nothing."""
    processor = _processor()
    return "" if processor and ("amx_tile" not in processor.split() or _may_use_tiles()) else host()


@functools.cache
def _processor() -> str:
    """What Linux says of the first processor, if that is one of x86: its kind and its features; elsewhere nothing."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in iter(file.readline, "\n") if ":" in line]
    except OSError:
        return ""
    fields = {name.strip(): value.strip() for name, _, value in lines}
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
    return " ".join(fields[name] for name in names) if all(name in fields for name in names) else ""


def _may_use_tiles() -> bool:
    """Ask Linux for the registers of the matrix unit, which a process gets on demand."""
    system = ctypes.CDLL(None)
    return hasattr(system, "syscall") and system.syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILES) == 0
