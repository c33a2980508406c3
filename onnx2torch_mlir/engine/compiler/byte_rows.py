"""Rows of floats that are whole numbers of steps: for each block of a row at most 127 of them either way, found again as bytes.

Quantizers round what they are given to such a grid and give floats on it, which is what programs multiply. Whether rows lie on
one is looked at when the program runs: numbers are whole steps if the steps times the step's length are these numbers again,
bit by bit. So the products of bytes (coded_bytes.py) are what the products of the floats are, but for the order of the sums.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import coded_words, narrowed_rows
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, constants, header_word, masked_load, words
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

RECORD_HEAD = 16
"""Bytes before those of a block: the length of its steps (f32), how many steps all its numbers are together, less than 0 (f32)
and, times the columns' zero point if they all have the same, as an i32."""
STEP, LESS, LESS_ZERO = range(3)
"""The words of 32 bits there."""
_LANES = 16
_MOST = 127
_LONGEST = 1 << 16
"""Steps of a block, of which 32 bits hold the sum of the products."""
_LARGEST_ZERO = 255.0
_ROUNDS = 1.5 * 2.0**23
"""A number that, added to a small one, rounds it to a whole one, ties to even, and leaves that in the lowest bits."""
_FLOATS, _INTS, _BITS, _BYTES = (f"vector<{_LANES}x{kind}>" for kind in ("f32", "i32", "i1", "i8"))


def functions(unit: VectorUnit) -> str:
    """@o2m_byte_rows, which makes a range of rows bytes, and what shares them among threads."""
    return "\n".join([*(_block(bits) for bits in bits_known(unit)), _rows(unit)])


def bits_known(unit: VectorUnit) -> list[int]:
    """The bits of codes that can be multiplied by bytes: products of whole bytes may be too large to be added as 16 bits."""
    return [bits for bits in (2, 4, 8) if bits < 8 or unit.has_dot_products]


def record_bytes() -> list[str]:
    """``%record``: the bytes of a record of ``%block`` steps, which the ``%header`` tells, as ``%padded`` bytes."""
    return [
        *header_word("%block", "%header", coded_words.BLOCK),
        *constants(record_head=RECORD_HEAD, sixteen=_LANES),
        "%vectors = arith.ceildivsi %block, %sixteen : i64",
        "%padded = arith.muli %vectors, %sixteen : i64",
        "%record = arith.addi %padded, %record_head : i64",
    ]


def made(unit: VectorUnit, rows: int) -> list[str]:
    """``%narrow``: what says whether the rows, which have so many dims, are on a grid, and has them as bytes if so
    (`narrowed_rows.made`)."""
    records = ["%records = arith.ceildivsi %kn0, %block : i64", "%row_bytes = arith.muli %record, %records : i64"]
    return narrowed_rows.made("o2m_byte_rows", rows, [*record_bytes(), *records], _may_be(unit))


def _same_zero() -> list[str]:
    """``%same_zero``: the zero point that all columns have; 0 where they have their own."""
    return [
        *header_word("%same", "%header", coded_words.SAME),
        *header_word("%own", "%header", coded_words.OWN),
        "%same32 = arith.trunci %same : i64 to i32",
        "%same_float = arith.bitcast %same32 : i32 to f32",
        "%no_zero = arith.constant 0.0 : f32",
        "%have_own = arith.cmpi ne, %own, %none : i64",
        "%same_zero = arith.select %have_own, %no_zero, %same_float : f32",
    ]


def _may_be(unit: VectorUnit) -> list[str]:
    """``%may_be``: whether the columns are codes that can be multiplied by bytes."""
    return [
        *header_word("%type", "%header", coded_words.TYPE),
        *_same_zero(),
        *constants(most_bits=max(bits_known(unit)), longest=_LONGEST),
        "%magnitude = math.absf %same_zero : f32",
        "%whole_zero = llvm.intr.trunc(%same_zero) : (f32) -> f32",
        f"%largest_zero = arith.constant {_LARGEST_ZERO} : f32",
        "%few_bits = arith.cmpi sle, %type, %most_bits : i64",
        "%short = arith.cmpi sle, %block, %longest : i64",
        "%is_whole = arith.cmpf oeq, %same_zero, %whole_zero : f32",
        "%is_small = arith.cmpf ole, %magnitude, %largest_zero : f32",
        "%fit0 = arith.andi %few_bits, %short : i1",
        "%fit1 = arith.andi %is_whole, %is_small : i1",
        "%may_be = arith.andi %fit0, %fit1 : i1",
    ]


def _rows(unit: VectorUnit) -> str:
    """@o2m_byte_rows: rows ``begin`` to ``end``, as long as none is found that is not on the grid."""
    *few, most = bits_known(unit)
    block = [(f"%{name}", "!llvm.ptr") for name in ("x", "to")] + [*words(["steps", "padded"]), ("%zero", "i32")]
    types = ", ".join(type_ for _, type_ in block)
    given = ", ".join(name for name, _ in block)
    cases = [
        f"{head} {{\n%f{bits} = func.call {_name(bits)}({given}) : ({types}) -> i1\nscf.yield %f{bits} : i1\n}}"
        for head, bits in [*((f"case {bits}", bits) for bits in few), ("default", most)]
    ]
    before = [
        *_same_zero(),
        *header_word("%type", "%header", coded_words.TYPE),
        "%type_is = arith.index_cast %type : i64 to index",
        "%zero = arith.fptosi %same_zero : f32 to i32",
        *record_bytes(),
    ]
    block_of_row = [
        "%left = arith.subi %k, %s : i64",
        "%steps = arith.minsi %left, %block : i64",
        "%x = llvm.getelementptr %from[%s] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%found = scf.index_switch %type_is -> i1",
        *cases,
    ]
    row = [
        "scf.for %s = %none to %k step %block iter_args(%to = %start) -> (!llvm.ptr) : i64 {",
        *narrowed_rows.while_narrow(block_of_row),
        bytes_behind("%next", "%to", "%record"),
        "scf.yield %next : !llvm.ptr",
        "}",
    ]
    return narrowed_rows.functions("o2m_byte_rows", before, row)


def _name(bits: int) -> str:
    return f"@o2m_byte_block_{bits}"


def _block(bits: int) -> str:
    """@o2m_byte_block_B(x, to, steps, padded, zero) -> i1: the record of a block, and whether its numbers are on a grid.

    The length of a step is a 127th of the largest number's magnitude, or, for that was rounded itself, a neighbour: the next
    larger number, or the next smaller one.
    """
    per = 8 // bits
    order = [at + place + per * i for at in range(0, _LANES, 4 * per) for place in range(per) for i in range(4)]
    newline = "\n"
    masked = f"""
    %rest = arith.subi %steps, %t : i64
    %limit = vector.broadcast %rest : i64 to vector<{_LANES}xi64>
    %mask = arith.cmpi slt, %lane, %limit : vector<{_LANES}xi64>
    %p = llvm.getelementptr %x[%t] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    {masked_load("%v", "%p", "%mask", _LANES, off="%nothing")}"""
    return f"""
  func.func private {_name(bits)}(%x: !llvm.ptr, %to: !llvm.ptr, %steps: i64, %padded: i64, %zero: i32) -> i1 {{
    {newline.join(constants(none=0, one=1, three=3, sixteen=_LANES))}
    %lane = arith.constant dense<[{", ".join(map(str, range(_LANES)))}]> : vector<{_LANES}xi64>
    %nothing = arith.constant dense<0.0> : {_FLOATS}
    %no_steps = arith.constant dense<0> : {_INTS}
    %all_bits = arith.constant dense<true> : {_BITS}
    %no_sign = arith.constant dense<{0x7FFFFFFF}> : {_INTS}
    %rounds = arith.constant dense<{_ROUNDS}> : {_FLOATS}
    %round_bits = arith.bitcast %rounds : {_FLOATS} to {_INTS}
    %most = arith.constant {float(_MOST)} : f32
    %zero_float = arith.constant 0.0 : f32
    %no = arith.constant false
    %magnitudes = scf.for %t = %none to %steps step %sixteen iter_args(%m = %no_steps) -> ({_INTS}) : i64 {{
      {masked}
      %w = arith.bitcast %v : {_FLOATS} to {_INTS}
      %u = arith.andi %w, %no_sign : {_INTS}
      %n = arith.maxsi %m, %u : {_INTS}
      scf.yield %n : {_INTS}
    }}
    %largest_bits = vector.reduction <maxsi>, %magnitudes : {_INTS} into i32
    %largest = arith.bitcast %largest_bits : i32 to f32
    %is_nothing = arith.cmpf oeq, %largest, %zero_float : f32
    %about = arith.divf %largest, %most : f32
    %about_bits = arith.bitcast %about : f32 to i32
    %inverse = arith.divf %most, %largest : f32
    %by = arith.select %is_nothing, %zero_float, %inverse : f32
    %byv = vector.broadcast %by : f32 to {_FLOATS}
    %bytes = llvm.getelementptr %to[{RECORD_HEAD}] : (!llvm.ptr) -> !llvm.ptr, i8
    %found = scf.for %turn = %none to %three step %one iter_args(%done = %no) -> (i1) : i64 {{
      %here = scf.if %done -> (i1) {{
        scf.yield %done : i1
      }} else {{
        %turn32 = arith.trunci %turn : i64 to i32
        %up = arith.addi %about_bits, %turn32 : i32
        %three32 = arith.constant 3 : i32
        %down = arith.subi %up, %three32 : i32
        %is_down = arith.cmpi sgt, %turn, %one : i64
        %step_bits = arith.select %is_down, %down, %up : i32
        %step = arith.bitcast %step_bits : i32 to f32
        %stepv = vector.broadcast %step : f32 to {_FLOATS}
        %r:2 = scf.for %t = %none to %padded step %sixteen iter_args(%total = %no_steps, %ok = %all_bits)
            -> ({_INTS}, {_BITS}) : i64 {{
          {masked}
          %scaled = arith.mulf %v, %byv : {_FLOATS}
          %moved = arith.addf %scaled, %rounds : {_FLOATS}
          %whole = arith.subf %moved, %rounds : {_FLOATS}
          %back = arith.mulf %whole, %stepv : {_FLOATS}
          %same = arith.cmpf oeq, %back, %v : {_FLOATS}
          %ok_here = arith.andi %ok, %same : {_BITS}
          %bits = arith.bitcast %moved : {_FLOATS} to {_INTS}
          %number = arith.subi %bits, %round_bits : {_INTS}
          %sum = arith.addi %total, %number : {_INTS}
          %narrow = arith.trunci %number : {_INTS} to {_BYTES}
          %ordered = vector.shuffle %narrow, %narrow {order} : {_BYTES}, {_BYTES}
          %q = llvm.getelementptr %bytes[%t] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          llvm.store %ordered, %q {{alignment = 1 : i64}} : {_BYTES}, !llvm.ptr
          scf.yield %sum, %ok_here : {_INTS}, {_BITS}
        }}
        %every = vector.reduction <and>, %r#1 : {_BITS} into i1
        %in_all = vector.reduction <add>, %r#0 : {_INTS} into i32
        %none32 = arith.constant 0 : i32
        %less = arith.subi %none32, %in_all : i32
        %less_float = arith.sitofp %less : i32 to f32
        %less_zero = arith.muli %less, %zero : i32
        llvm.store %step, %to : f32, !llvm.ptr
        %less_at = llvm.getelementptr %to[{LESS}] : (!llvm.ptr) -> !llvm.ptr, i32
        llvm.store %less_float, %less_at : f32, !llvm.ptr
        %less_zero_at = llvm.getelementptr %to[{LESS_ZERO}] : (!llvm.ptr) -> !llvm.ptr, i32
        llvm.store %less_zero, %less_zero_at : i32, !llvm.ptr
        scf.yield %every : i1
      }}
      scf.yield %here : i1
    }}
    return %found : i1
  }}"""

