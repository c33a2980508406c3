"""Bytes of any layout as pairs of 16 bits, in the order in which tiles of integers read them (see integer_tile.py).

Places are found through tables: of the rows or columns, and of the elements along the sum. Each entry is two byte offsets, of
which one is an operand's, so a table is handed over at the first offset that counts. ``flip`` and ``bias`` make a byte a
number less its zero point, signed or not: a byte's bits exclusive-or ``flip``, zero-extended, less ``bias``.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_CHUNK = 16


def rows(unit: VectorUnit, *, wide: bool) -> str:
    """@o2m_pairs_of_rows: ``m`` rows side by side, each of ``k`` numbers, 0 after an odd last one.

    Arguments: to, the operand, the table of rows, m, the table along the sum, k, how many neighbours along the sum lie
    side by side (of which k is a multiple), flip, bias. If not ``wide``, @o2m_fours_of_rows: numbers stay bytes, of which
    nothing is subtracted, and each row takes whole fours, of which the last may hold anything beyond the sum's end.
    """
    # What is left of neighbours after whole chunks is done by a vector that ends with them, again for some.
    name, element = ("pairs", "i16") if wide else ("fours", "i8")
    long = 2 * _CHUNK if wide else max(2 * _CHUNK, 4 * unit.lanes)
    fill = "%k, %two" if wide else "%k, %one"
    ends = "%k, %odd" if wide else "%quads, %none"

    def converted(count: int, from_: str = "%from", to: str = "%into") -> str:
        return "\n".join(_converted(count, from_, to, wide=wide))

    return f"""
  func.func private @o2m_{name}_of_rows(%to: !llvm.ptr, %a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %along: !llvm.ptr, %k: i64,
      %run: i64, %flip: i8, %bias: i16) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %chunk = arith.constant {_CHUNK} : i64
    %long = arith.constant {long} : i64
    %short = arith.remui %run, %long : i64
    %longs = arith.subi %run, %short : i64
    %four = arith.constant 4 : i64
    %eight = arith.constant 8 : i64
    %nothing = arith.constant 0 : {element}
    %odd = arith.remui {fill} : i64
    %up = arith.ceildivsi %k, %four : i64
    %quads = arith.muli %up, %four : i64
    %is_odd = arith.cmpi ne, %odd, %none : i64
    %far = arith.addi {ends} : i64
    %rest = arith.remui %run, %chunk : i64
    %whole = arith.subi %run, %rest : i64
    %is_ragged = arith.cmpi ne, %rest, %none : i64
    %is_long = arith.cmpi sgt, %rest, %eight : i64
    %has_half = arith.cmpi sge, %run, %eight : i64
    %has_quarter = arith.cmpi sge, %run, %four : i64
    %last8 = arith.subi %run, %eight : i64
    %last4 = arith.subi %run, %four : i64
    scf.for %i = %none to %m step %one : i64 {{
      %ti = arith.muli %i, %two : i64
      %pi = llvm.getelementptr %table[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %oi = llvm.load %pi : !llvm.ptr -> i64
      %ai = llvm.getelementptr %a[%oi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %di = arith.muli %i, %far : i64
      %row = llvm.getelementptr %to[%di] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
      scf.for %s = %none to %k step %run : i64 {{
        %ts = arith.muli %s, %two : i64
        %ps = llvm.getelementptr %along[%ts] : (!llvm.ptr, i64) -> !llvm.ptr, i64
        %os = llvm.load %ps : !llvm.ptr -> i64
        %as = llvm.getelementptr %ai[%os] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %ds = llvm.getelementptr %row[%s] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
        scf.for %t = %none to %longs step %long : i64 {{
          %from = llvm.getelementptr %as[%t] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %into = llvm.getelementptr %ds[%t] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
          {converted(long)}
        }}
        scf.for %t = %longs to %whole step %chunk : i64 {{
          %from = llvm.getelementptr %as[%t] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %into = llvm.getelementptr %ds[%t] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
          {converted(_CHUNK)}
        }}
        scf.if %is_ragged {{
          scf.if %has_half {{
            scf.if %is_long {{
              %from = llvm.getelementptr %as[%whole] : (!llvm.ptr, i64) -> !llvm.ptr, i8
              %into = llvm.getelementptr %ds[%whole] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
              {converted(8)}
            }}
            %from = llvm.getelementptr %as[%last8] : (!llvm.ptr, i64) -> !llvm.ptr, i8
            %into = llvm.getelementptr %ds[%last8] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
            {converted(8)}
          }} else {{
            scf.if %has_quarter {{
              {converted(4, "%as", "%ds")}
              %from = llvm.getelementptr %as[%last4] : (!llvm.ptr, i64) -> !llvm.ptr, i8
              %into = llvm.getelementptr %ds[%last4] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
              {converted(4)}
            }} else {{
              scf.for %t = %none to %run step %one : i64 {{
                %from = llvm.getelementptr %as[%t] : (!llvm.ptr, i64) -> !llvm.ptr, i8
                %into = llvm.getelementptr %ds[%t] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
                {converted(1)}
              }}
            }}
          }}
        }}
      }}
      scf.if %is_odd {{
        %last = llvm.getelementptr %row[%k] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
        llvm.store %nothing, %last : {element}, !llvm.ptr
      }}
    }}
    return
  }}"""


def _converted(count: int, from_: str, to: str, *, wide: bool) -> list[str]:
    """So many bytes: with their bits flipped, or as numbers of 16 bits less the bias."""
    bytes_, words = f"vector<{count}xi8>", f"vector<{count}xi16>"
    # The pointers may be of the region around: names are of this piece alone.
    tag = f"{from_.removeprefix('%')}{count}"
    flip, value, flipped, bias, result = (f"%{tag}_{name}" for name in ("flip", "v", "f", "bias", "n"))
    lines = [
        f"{flip} = vector.broadcast %flip : i8 to {bytes_}",
        f"{value} = llvm.load {from_} {{alignment = 1 : i64}} : !llvm.ptr -> {bytes_}",
    ]
    if not wide:
        lines.append(f"{flipped} = arith.xori {value}, {flip} : {bytes_}")
        return [*lines, f"llvm.store {flipped}, {to} {{alignment = 1 : i64}} : {bytes_}, !llvm.ptr"]
    return [
        *lines,
        f"{bias} = vector.broadcast %bias : i16 to {words}",
        *less_zero_point(result, value, (flip, bias), count),
        f"llvm.store {result}, {to} {{alignment = 2 : i64}} : {words}, !llvm.ptr",
    ]


def less_zero_point(name: str, value: str, by: tuple[str, str], count: int) -> list[str]:
    """``name``: ``count`` bytes as numbers of 16 bits less their zero point, by vectors of flips and of biases."""
    bytes_, words = f"vector<{count}xi8>", f"vector<{count}xi16>"
    flips, biases = by
    return [
        f"{name}_flipped = arith.xori {value}, {flips} : {bytes_}",
        f"{name}_wide = arith.extui {name}_flipped : {bytes_} to {words}",
        f"{name} = arith.subi {name}_wide, {biases} : {words}",
    ]


def columns(unit: VectorUnit) -> str:
    """@o2m_pairs_of_columns: panels of ``unit.columns`` columns, in which the pairs of each step lie side by side.

    Arguments: to, the operand, the table of columns, n, the table along the sum, k, flip, and for each column (and those that
    fill the last panel, which become 0) its bias.
    """
    width = unit.columns
    bytes_, both, words, single = (
        f"vector<{width}xi8>",
        f"vector<{2 * width}xi8>",
        f"vector<{2 * width}xi16>",
        f"vector<{width}xi16>",
    )
    mixed = [number for i in range(width) for number in (i, width + i)]
    return f"""
  func.func private @o2m_pairs_of_columns(%to: !llvm.ptr, %b: !llvm.ptr, %table: !llvm.ptr, %n: i64, %along: !llvm.ptr, %k: i64,
      %flip: i8, %biases: !llvm.ptr) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %width = arith.constant {width} : i64
    %nothing = arith.constant 0 : i16
    %flips = vector.broadcast %flip : i8 to {both}
    %odd = arith.remui %k, %two : i64
    %even = arith.subi %k, %odd : i64
    %far = arith.addi %k, %odd : i64
    %panel = arith.muli %far, %width : i64
    %end = scf.for %j = %none to %n step %width iter_args(%t = %to) -> (!llvm.ptr) : i64 {{
      %left = arith.subi %n, %j : i64
      %count = arith.minsi %left, %width : i64
      %tj = arith.muli %j, %two : i64
      %pj = llvm.getelementptr %table[%tj] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %first = llvm.load %pj : !llvm.ptr -> i64
      %bj = llvm.getelementptr %b[%first] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %zj = llvm.getelementptr %biases[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      %is_full = arith.cmpi eq, %count, %width : i64
      %dense = scf.for %i = %one to %count step %one iter_args(%so = %is_full) -> (i1) : i64 {{
        %ti = arith.muli %i, %two : i64
        %pi = llvm.getelementptr %pj[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i64
        %oi = llvm.load %pi : !llvm.ptr -> i64
        %expected = arith.addi %first, %i : i64
        %same = arith.cmpi eq, %oi, %expected : i64
        %and = arith.andi %so, %same : i1
        scf.yield %and : i1
      }}
      %vectors = arith.select %dense, %even, %none : i64
      %z = llvm.load %zj {{alignment = 2 : i64}} : !llvm.ptr -> {single}
      %zz = vector.shuffle %z, %z {[i // 2 for i in range(2 * width)]} : {single}, {single}
      scf.for %s = %none to %vectors step %two : i64 {{
        %ts = arith.muli %s, %two : i64
        %p0 = llvm.getelementptr %along[%ts] : (!llvm.ptr, i64) -> !llvm.ptr, i64
        %p1 = llvm.getelementptr %p0[2] : (!llvm.ptr) -> !llvm.ptr, i64
        %o0 = llvm.load %p0 : !llvm.ptr -> i64
        %o1 = llvm.load %p1 : !llvm.ptr -> i64
        %b0 = llvm.getelementptr %bj[%o0] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %b1 = llvm.getelementptr %bj[%o1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %v0 = llvm.load %b0 {{alignment = 1 : i64}} : !llvm.ptr -> {bytes_}
        %v1 = llvm.load %b1 {{alignment = 1 : i64}} : !llvm.ptr -> {bytes_}
        %v = vector.shuffle %v0, %v1 {mixed} : {bytes_}, {bytes_}
        %f = arith.xori %v, %flips : {both}
        %w = arith.extui %f : {both} to {words}
        %x = arith.subi %w, %zz : {words}
        %ds = arith.muli %s, %width : i64
        %into = llvm.getelementptr %t[%ds] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        llvm.store %x, %into {{alignment = 2 : i64}} : {words}, !llvm.ptr
      }}
      scf.for %s = %vectors to %far step %two : i64 {{
        %ts = arith.muli %s, %two : i64
        %p0 = llvm.getelementptr %along[%ts] : (!llvm.ptr, i64) -> !llvm.ptr, i64
        %o0 = llvm.load %p0 : !llvm.ptr -> i64
        %next = arith.addi %s, %one : i64
        %is_pair = arith.cmpi slt, %next, %k : i64
        %p1 = llvm.getelementptr %p0[2] : (!llvm.ptr) -> !llvm.ptr, i64
        %q1 = llvm.select %is_pair, %p1, %p0 : i1, !llvm.ptr
        %o1 = llvm.load %q1 : !llvm.ptr -> i64
        %b0 = llvm.getelementptr %b[%o0] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %b1 = llvm.getelementptr %b[%o1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %ds = arith.muli %s, %width : i64
        %into = llvm.getelementptr %t[%ds] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        scf.for %i = %none to %count step %one : i64 {{
          %ti = arith.muli %i, %two : i64
          %pi = llvm.getelementptr %pj[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i64
          %oi = llvm.load %pi : !llvm.ptr -> i64
          %zi = llvm.getelementptr %zj[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i16
          %bias = llvm.load %zi : !llvm.ptr -> i16
          %s0 = llvm.getelementptr %b0[%oi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %s1 = llvm.getelementptr %b1[%oi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %v0 = llvm.load %s0 : !llvm.ptr -> i8
          %v1 = llvm.load %s1 : !llvm.ptr -> i8
          %f0 = arith.xori %v0, %flip : i8
          %f1 = arith.xori %v1, %flip : i8
          %w0 = arith.extui %f0 : i8 to i16
          %w1 = arith.extui %f1 : i8 to i16
          %n0 = arith.subi %w0, %bias : i16
          %d1 = arith.subi %w1, %bias : i16
          %n1 = arith.select %is_pair, %d1, %nothing : i16
          %i0 = llvm.getelementptr %into[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i16
          %i1 = llvm.getelementptr %i0[1] : (!llvm.ptr) -> !llvm.ptr, i16
          llvm.store %n0, %i0 : i16, !llvm.ptr
          llvm.store %n1, %i1 : i16, !llvm.ptr
        }}
        scf.for %i = %count to %width step %one : i64 {{
          %ti = arith.muli %i, %two : i64
          %i0 = llvm.getelementptr %into[%ti] : (!llvm.ptr, i64) -> !llvm.ptr, i16
          %i1 = llvm.getelementptr %i0[1] : (!llvm.ptr) -> !llvm.ptr, i16
          llvm.store %nothing, %i0 : i16, !llvm.ptr
          llvm.store %nothing, %i1 : i16, !llvm.ptr
        }}
      }}
      %passed = llvm.getelementptr %t[%panel] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      scf.yield %passed : !llvm.ptr
    }}
    return
  }}"""
