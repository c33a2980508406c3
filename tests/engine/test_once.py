"""Work that several threads come to."""

import threading

import pytest

from onnx2torch_mlir.engine.compiler.once import Once


def test_one_of_several_threads_does_the_work_and_all_have_its_result():
    begun, goes_on, results = list[int](), threading.Event(), list[object]()

    def work() -> object:
        begun.append(threading.get_ident())
        goes_on.wait(60)
        return object()

    once = Once(work)

    def come() -> None:
        once.make()
        results.append(once.result())

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert not once.is_made
    goes_on.set()
    for thread in threads:
        thread.join()
    assert once.is_made and not once.is_refused
    assert len(begun) == 1 and len(results) == 4 and len(set(results)) == 1


def test_an_error_is_kept_for_those_who_ask():
    calls = list[int]()

    def work() -> int:
        calls.append(1)
        raise ValueError("no")

    once = Once(work)
    once.make()
    once.make()
    assert once.is_made and once.is_refused and len(calls) == 1
    with pytest.raises(ValueError, match="no"):
        once.result()
