"""The threads of a model that C opens: a pool (pool_code.py) of its own, from when it is opened to when it is closed."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.c_code import POINTER, Fragment, Function, Value
from onnx2torch_mlir.engine.layout import CONDITION, MUTEX, POOL, POOL_BYTES, STOPPER, THREADS, WORKER

START, END, COUNT = "o2m_c_start", "o2m_c_end", "o2m_c_threads"

_RAW, _COUNT, _WORKERS = POOL_BYTES, POOL_BYTES + 8, POOL_BYTES + 16
_HANDLE, _POOL, _NUMBER, _WORKER_BYTES = 0, 8, 16, 24
"""Behind a pool: malloc's pointer, the number of workers, and for each its handle and what it is told: the pool, its number."""

_CPU_MASK = 128
_SC_NPROCESSORS_ONLN = 84


def define(fragment: Fragment) -> None:
    """Add the functions `START`, `END` and `COUNT`."""
    _define_threads(fragment)
    _define_worker(fragment)
    _define_start(fragment)
    _define_end(fragment)


def allow(context: Value, threads: Value, pool: Value) -> None:
    """Let calls with a context use so many threads."""
    context.store(threads, 8 * THREADS)
    context.store(pool, 8 * POOL)


def _define_threads(fragment: Fragment) -> None:
    """``i64 o2m_c_threads(asked)``: so many, or for 0 one for each processor that this process may run on."""
    with fragment.function(COUNT, ["i64"], "i64") as f:
        (asked,) = f.arguments
        mask, count = f.memory(_CPU_MASK), f.memory(8)
        with f.when(asked.differs(0)):
            f.give(asked)
        f.call("memset", mask, f.number(0, "i32"), f.number(_CPU_MASK), result=POINTER)
        count.store(f.number(0))
        known = f.get("sched_getaffinity", f.number(0, "i32"), f.number(_CPU_MASK), mask, result="i32")
        with f.when(known.below(0)):
            count.store(f.get("sysconf", f.number(_SC_NPROCESSORS_ONLN, "i32")))
        with f.when(known.equals(0)), f.loop(_CPU_MASK // 8) as word:
            bits = mask.at(word * 8).load()
            count.store(count.load() + f.emit(f'"llvm.intr.ctpop"({bits.name}) : (i64) -> i64', "i64"))
        found = count.load()
        f.give(f.choose(found.below(1), f.number(1), found))


def _define_worker(fragment: Fragment) -> None:
    """What pthread_create starts."""
    with fragment.function("o2m_c_worker", [POINTER], POINTER) as f:
        (told,) = f.arguments
        f.call(WORKER, told.load(_POOL, POINTER), told.load(_NUMBER))
        f.give(f.null())


def _define_start(fragment: Fragment) -> None:
    """``pool o2m_c_start(threads)``: a pool with a worker less, or as many as the system allows; null for a single thread."""
    with fragment.function(START, ["i64"], POINTER) as f:
        (threads,) = f.arguments
        null = f.null()
        with f.when(threads.below(2)):
            f.give(null)
        size = threads * _WORKER_BYTES + (_WORKERS + 64)
        raw = f.get("calloc", f.number(1), size, result=POINTER)
        with f.when(raw.equals(0)):
            f.give(null)
        pool = ((raw.as_number() + 63) & -64).as_pointer()
        pool.store(raw, _RAW)
        for routine, word in (("pthread_mutex_init", MUTEX), ("pthread_cond_init", CONDITION)):
            f.get(routine, pool.at(8 * word), null, result="i32")
        with f.loop(threads - 1) as index:
            told = pool.at(index * _WORKER_BYTES).at(_WORKERS)
            told.store(pool, _POOL)
            told.store(index + 1, _NUMBER)
            failed = f.get("pthread_create", told, null, _function(f, "o2m_c_worker"), told, result="i32")
            with f.when(failed.differs(0)):
                f.give(pool)
            pool.store(index + 1, _COUNT)
        f.give(pool)


def _define_end(fragment: Fragment) -> None:
    """``o2m_c_end(pool)``: after the workers have ended, its memory is given back."""
    with fragment.function(END, [POINTER]) as f:
        (pool,) = f.arguments
        f.call(STOPPER, pool)
        with f.loop(pool.load(_COUNT)) as index:
            handle = pool.at(index * _WORKER_BYTES).load(_WORKERS + _HANDLE)
            f.get("pthread_join", handle, f.null(), result="i32")
        for routine, word in (("pthread_mutex_destroy", MUTEX), ("pthread_cond_destroy", CONDITION)):
            f.get(routine, pool.at(8 * word), result="i32")
        f.call("free", pool.load(_RAW, POINTER))
        f.give()


def _function(f: Function, name: str) -> Value:
    return f.emit(f"llvm.mlir.addressof @{name} : {POINTER}", POINTER)
