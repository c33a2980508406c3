"""SparseAttention: attention over a cache of which every head sees some blocks of steps only."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.group_query import Rules, attend, turned, unpacked
from onnx2torch_mlir.domains.com_microsoft.key_value_cache import Lengths, filled_up


def sparse_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value,
    past_value: Value,
    block_row_indices: Value,
    block_col_indices: Value,
    total_sequence_length: Size,
    key_total_sequence_lengths: Value,
    cos_cache: Value | None = None,
    sin_cache: Value | None = None,
    *,
    do_rotary: int = 0,
    kv_num_heads: int,
    num_heads: int,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sparse_block_size: int,
) -> tuple[Value, Value, Value]:
    """[B, S, num_heads * H], and the buffers [B, kv_num_heads, M, H] with the new keys and values written into them.

    ``block_row_indices`` [layouts, blocks + 1] and ``block_col_indices`` [layouts, n] list the blocks of
    ``sparse_block_size`` steps that each block sees; heads take the layouts in turns. Computed in float32.
    Source: com.microsoft SparseAttention.

    Raises:
        Refusal: O2M-C005 for ranks and numbers of heads, O2M-C006 for sizes that do not fit.
    """
    if not block_row_indices.rank == block_col_indices.rank == 2:
        raise refuse("O2M-C005", "block_row_indices or block_col_indices is not of rank 2", case="block_row_indices")
    layouts = block_row_indices.shape[0]
    g.require_equal(layouts, block_col_indices.shape[0], "layouts of block_row_indices and block_col_indices")
    if num_heads % kv_num_heads:
        raise refuse("O2M-C005", f"{num_heads} heads of queries for {kv_num_heads} of keys", case="num_heads")
    dtype = query.dtype
    query, key, value = unpacked(g, query, key, value, num_heads, kv_num_heads)
    if past_key.rank != 4:
        raise refuse("O2M-C005", f"a past of rank {past_key.rank}, not 4", case="past_key")
    batch, steps, room = query.shape[0], query.shape[2], past_key.shape[2]
    last = g.sub(g.cast(key_total_sequence_lengths, torch.int64), 1)
    lengths = Lengths.of(g, last, batch, steps, g.as_size(total_sequence_length))
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise refuse("O2M-C005", "do_rotary needs cos_cache and sin_cache", case="do_rotary")
        places = g.add(g.unsqueeze(lengths.past, 1), g.unsqueeze(g.arange(0, steps), 0))
        query, key = turned(g, [query, key], places, (cos_cache, sin_cache), bool(rotary_interleaved))
    pairs = ((past_key, key), (past_value, value))
    presents = [filled_up(g, old, new, lengths, room, shared=True) for old, new in pairs]
    blocks = _blocks(g, block_row_indices, block_col_indices)
    own = g.floor_div(g.add(g.unsqueeze(lengths.past, 1), g.arange(0, steps)), sparse_block_size)
    bound = g.size_value(to_dim(blocks.shape[1] - 1))
    row = g.reshape(g.minimum(own, bound), [batch, 1, steps, 1])
    column = g.minimum(g.floor_div(g.arange(0, room), sparse_block_size), bound)
    turns = g.binary("remainder", g.arange(0, num_heads), g.size_value(layouts))
    layout = g.reshape(turns, [1, num_heads, 1, 1])
    listed = g.call("aten.index.Tensor", blocks, [layout, row, g.reshape(column, [1, 1, 1, room])])
    seen = g.binary("logical_and", listed, lengths.seen(g, room, None))
    wide = [g.cast(item, torch.float32) for item in (query, *presents)]
    output, _, _ = attend(g, wide[0], wide[1], wide[2], Rules(scale or None, 0.0, None, seen, None))
    return g.cast(output, dtype), presents[0], presents[1]


def _blocks(g: ProgramBuilder, starts: Value, columns: Value) -> Value:
    """[layouts, blocks, blocks]: whether a block sees another one, of the sparse rows that list it."""
    layouts, count = columns.shape
    blocks = to_dim(starts.shape[1] - 1)
    starts, columns = g.cast(starts, torch.int64), g.cast(columns, torch.int64)
    place = g.reshape(g.arange(0, count), [1, count, 1])
    behind = g.binary("le", g.reshape(g.slice(starts, 1, 1, to_dim(blocks + 1)), [layouts, 1, blocks]), place)
    row = g.sum(g.cast(behind, torch.int64), [2])
    is_listed = g.binary("logical_and", g.binary("lt", row, g.size_value(blocks)), g.binary("ge", columns, 0))
    first = g.mul(g.reshape(g.arange(0, layouts), [layouts, 1]), g.size_value(to_dim(blocks * blocks)))
    index = g.add(g.add(g.mul(row, g.size_value(blocks)), columns), first)
    index = g.where(is_listed, index, 0)
    whole = product([layouts, blocks, blocks])
    hits = g.full([whole], 0, torch.int64)
    numbers = g.reshape(g.cast(is_listed, torch.int64), [-1])
    hits = g.call("aten.scatter_add.default", hits, 0, g.reshape(index, [-1]), numbers)
    return g.reshape(g.binary("gt", hits, 0), [layouts, blocks, blocks])
