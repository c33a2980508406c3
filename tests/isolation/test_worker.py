import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.isolation import TaskFailed, Worker, WorkerCrashed, WorkerTimeout


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    worker = Worker()
    yield worker
    worker.close()


def test_result_and_reuse(worker):
    assert worker.call("tests.isolation.tasks:add", 2, b=3) == 5
    assert worker.call("tests.isolation.tasks:pid") == worker.call("tasks:pid") == worker.pid != os.getpid()


def test_a_worker_is_replaced_for_its_own_memory_not_its_owners(worker, monkeypatch):
    monkeypatch.setattr("onnx2torch_mlir.isolation.worker._MEMORY_LIMIT", 300 << 20)
    owners = b"x" * (400 << 20)
    first, second = worker.call("tasks:pid"), worker.call("tasks:pid")
    assert first == second
    worker.call("tasks:allocate", len(owners))
    assert worker.call("tasks:pid") != first


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt and malloc_info are glibc's")
def test_threads_of_a_worker_share_heaps(worker):
    processors = len(os.sched_getaffinity(0))
    threads = 2 * processors + 2
    assert worker.call("tasks:heaps", threads) <= processors
    alone = f"import tasks; print(tasks.heaps({threads}))"
    done = subprocess.run([sys.executable, "-c", alone], cwd=Path(__file__).parent, capture_output=True, check=True, text=True)
    assert int(done.stdout) > processors


def test_large_bytes_cross(worker):
    data = os.urandom(1 << 20) * 20
    assert worker.call("tests.isolation.tasks:add", data, b=b"x") == data + b"x"


def test_worker_starts_light(worker):
    assert worker.call("tests.isolation.tasks:heavy_modules") == []


def test_refusal_keeps_its_findings(worker):
    with pytest.raises(Refusal) as caught:
        worker.call("tests.isolation.tasks:refuse_it")
    assert caught.value.findings[0].code == "O2M-M001" and caught.value.findings[0].case == "pass"
    assert "refuse_it" in caught.value.__notes__[0]


def test_exceptions_of_the_task(worker):
    with pytest.raises(TypeError):
        worker.call("tests.isolation.tasks:add", "a", b=1)
    with pytest.raises(TaskFailed, match="two arguments"):
        worker.call("tests.isolation.tasks:raise_unpicklable")
    assert worker.call("tests.isolation.tasks:add", 1) == 2


def test_crash_is_told_and_survived(worker):
    with pytest.raises(WorkerCrashed) as caught:
        worker.call("tests.isolation.tasks:abort")
    assert caught.value.signal == signal.SIGABRT and caught.value.task == "tests.isolation.tasks:abort"
    assert "Assertion `x > 0' failed" in caught.value.last_line
    with pytest.raises(WorkerCrashed) as caught:
        worker.call("tests.isolation.tasks:segfault")
    assert caught.value.signal == signal.SIGSEGV and "Assertion" not in caught.value.stderr
    with pytest.raises(WorkerCrashed) as caught:
        worker.call("tests.isolation.tasks:leave", 7)
    assert caught.value.exit_status == 7
    assert worker.call("tests.isolation.tasks:add", 1) == 2


def test_timeout(worker):
    worker.call("tests.isolation.tasks:add", 1)
    begin = time.monotonic()
    with pytest.raises(WorkerTimeout):
        worker.call("tests.isolation.tasks:sleep", 60, timeout=0.2)
    assert time.monotonic() - begin < 10
    assert worker.call("tests.isolation.tasks:add", 1, timeout=60) == 2


def test_standard_output_is_not_the_pipe(worker):
    assert worker.call("tests.isolation.tasks:print_noise") == "quiet"


def test_threads_share_one_worker(worker):
    results = {}

    def work(i):
        results[i] = [worker.call("tests.isolation.tasks:add", i, b=j) for j in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [i + j for j in range(20)] for i in range(4)}


def test_worker_ends_with_its_owner():
    script = f"""
import sys; sys.path[:] = {[*sys.path, str(Path(__file__).parent)]!r}
from onnx2torch_mlir import isolation
print(isolation.call("tests.isolation.tasks:pid"), flush=True)
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(output.stdout), 0)


def test_forked_child_gets_its_own_worker(worker):
    mine = worker.call("tests.isolation.tasks:pid")
    child = os.fork()
    if child == 0:
        os._exit(0 if worker.call("tests.isolation.tasks:pid") != mine and worker.close() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert worker.call("tests.isolation.tasks:pid") == mine


def test_a_worker_that_is_started_ahead_takes_the_first_task(worker):
    worker.start("tasks:pid")
    first = worker.pid
    worker.start("tasks:pid")
    assert worker.call("tasks:pid") == worker.pid == first != os.getpid()
    worker.dismiss()
    assert worker.call("tasks:pid") == first


def test_a_worker_that_is_started_ahead_for_nothing_is_dismissed(worker):
    worker.start("tasks:pid")
    first = worker.pid
    worker.dismiss()
    assert worker.pid is None
    assert worker.call("tasks:pid") == worker.pid != first


def test_a_worker_retires_when_it_has_nothing_to_do(worker):
    worker.retire()
    first = worker.call("tasks:pid")
    worker.retire()
    assert worker.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    worker.start("tasks:pid")
    ahead = worker.pid
    worker.retire()
    assert worker.call("tasks:pid") == ahead != first


def test_a_worker_retires_after_one_task_but_not_after_more(worker):
    first = worker.call("tasks:pid")
    worker.retire(after=1)
    assert worker.pid is None
    second = worker.call("tasks:pid")
    worker.retire(after=1)
    assert worker.call("tasks:pid") == second != first


def test_a_worker_at_work_does_not_retire(worker):
    def meanwhile():
        other = threading.Thread(target=worker.retire)
        other.start()
        other.join()

    assert worker.call("tests.isolation.tasks:add", 2, b=3, meanwhile=meanwhile) == 5
    assert worker.call("tasks:pid") == worker.pid


def test_what_cannot_be_loaded_ahead_is_told_of_the_task(worker):
    worker.start("no_such_module:anything")
    with pytest.raises(ModuleNotFoundError):
        worker.call("no_such_module:anything")
    assert worker.call("tasks:pid") == worker.pid


def test_a_worker_prepares_itself_while_no_task_has_come(worker, monkeypatch, tmp_path):
    place = tmp_path / "prepared"
    monkeypatch.setenv("TASKS_PREPARED", str(place))
    worker.start("tasks:pid")
    deadline = time.monotonic() + 60
    while not (place.exists() and place.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert place.read_text() == str(worker.pid) == str(worker.call("tasks:pid"))


def test_a_worker_that_is_not_started_ahead_prepares_nothing(worker, monkeypatch, tmp_path):
    monkeypatch.setenv("TASKS_PREPARED", str(tmp_path / "prepared"))
    assert worker.call("tasks:pid") == worker.pid
    assert not (tmp_path / "prepared").exists()
