"""Loaders that end in mid-read, in other threads, in forked children, and with Python."""

import gc
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref

import numpy as np
import pytest
import rota
import rota.mpi
from runs import rows, source


def loader(**options):
    return rota.Loader(source(4000), 8, **{"world": (0, 1), "workers": 2, **options})


def python(code):
    """Runs `code` in a process of its own, which must end in order."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_loaders_end_in_mid_read():
    for batches in range(12):
        one = loader(workers=1 + batches % 3)
        for _ in range(batches):
            one.next()
        del one


@pytest.mark.parametrize("kept", ["", "batch = loader.next()", "rows = loader.next()['x']"])
def test_python_ends_while_workers_read(kept):
    python(
        f"""
        import rota
        class Rows:
            def __len__(self): return 10**6
            def __getitem__(self, i): return {{"x": i}}
        loader = rota.Loader(rota.PythonSource(Rows()), 64, workers=4, world=(0, 1), transform=lambda s: None)
        {kept}
        """
    )


def test_python_ends_while_another_thread_waits_for_a_batch():
    python(
        """
        import rota, threading
        inside, never = threading.Event(), threading.Event()
        def wait(sample):
            inside.set()
            never.wait(20 if threading.main_thread().is_alive() else 0.01)
        loader = rota.Loader(rota.PythonSource(range(100)), 4, world=(0, 1), transform=wait)
        threading.Thread(target=lambda: loader.next(), daemon=True).start()
        assert inside.wait(30)
        never.set()
        """
    )


@pytest.mark.parametrize("handler", ["", "signal.signal(signal.SIGINT, stop)"])
def test_a_signal_ends_a_wait_and_the_loader_goes_on(handler):
    python(
        f"""
        import os, rota, signal, sys, threading
        class Stopped(BaseException): pass
        def stop(*_): raise Stopped
        {handler}
        leave = threading.Event()
        def wait(sample):
            assert leave.wait(60)
        def interrupt():
            main = threading.main_thread().ident
            while sys._current_frames()[main].f_code.co_name != "next": pass
            os.kill(os.getpid(), signal.SIGINT)
        loader = rota.Loader(rota.PythonSource(range(100)), 4, world=(0, 1), transform=wait)
        threading.Thread(target=interrupt).start()
        try:
            loader.next()
        except (KeyboardInterrupt, Stopped) as error:
            assert isinstance(error, Stopped if "{handler}" else KeyboardInterrupt)
        else:
            raise AssertionError("it was not interrupted")
        assert loader.position.step == 0
        leave.set()
        assert sum(batch.size for batch in loader) == 100
        """
    )


def test_loaders_are_made_and_dropped_by_many_threads():
    failed = []

    def work(seed):
        draw = random.Random(seed)
        try:
            for _ in range(5):
                one = loader(workers=draw.randint(0, 2))
                for _ in range(draw.randint(0, 5)):
                    one.next()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failed and not any(thread.is_alive() for thread in threads)


def test_a_batch_is_dropped_by_another_thread_than_got_it():
    one = loader()
    for _ in range(50):
        batch = [one.next()]
        thread = threading.Thread(target=batch.clear)
        thread.start()
        thread.join(60)


def in_child(work):
    """The exit code of a forked child that does `work`."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(work() or 0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="no threads in forked children")
def test_a_forked_child_is_refused_its_parents_loader_and_may_make_its_own():
    one = loader()
    first = one.next()

    def child():
        for touch in (one.next, one.state_dict, lambda: one.position, lambda: list(one)):
            try:
                touch()
                return 1
            except rota.UnsupportedError as error:
                assert "fork" in str(error)
        return 0 if sum(batch.size for batch in loader()) == 4000 else 2

    assert in_child(child) == 0
    assert one.next().start.step == 1 and first.size == 8


def test_a_forked_child_ends_in_order_with_its_parents_loader():
    one = loader()
    batch = one.next()
    assert in_child(lambda: gc.collect() and 0) == 0
    code = "import os, rota\nl = rota.Loader(rota.PythonSource(range(999)), 4, world=(0, 1))\nb = l.next()\npid = os.fork()\nif pid: assert os.waitpid(pid, 0)[1] == 0"
    python(code)
    assert batch.size == 8


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it keeps what was freed")
def test_arrays_kept_and_dropped_at_random_leave_no_memory_behind(tmp_path):
    (tmp_path / "lines.jsonl").write_text("".join(f"{i:0{i % 50}}\n" for i in range(2000)))
    draw, kept = random.Random(1), []
    ragged = rota.Loader(rota.open(tmp_path), 4, workers=1, epochs=None, world=(0, 1))
    fixed = rota.Loader(source(2000), 4, workers=1, epochs=None, world=(0, 1))
    for step in range(100_000):
        kept.append(ragged.next()["text"][draw.randint(0, 3)] if step % 10 else fixed.next()[draw.choice(("x", "n"))])
        if draw.random() < 0.5:
            kept = kept[-draw.randint(1, 20) :]
        if step == 20_000:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB


def test_sources_die_while_another_thread_collects(tmp_path):
    (tmp_path / "a.jsonl").write_text("1\n2\n")
    python(
        f"""
        import gc, rota, threading, time
        over = threading.Event()
        def collect():
            while not over.is_set(): gc.collect()
        threads = [threading.Thread(target=collect), threading.Thread(target=collect)]
        for thread in threads: thread.start()
        end = time.monotonic() + 30
        rounds = 0
        while rounds < 1500 and time.monotonic() < end:
            rota.open({str(tmp_path)!r}, "lines")
            rounds += 1
        over.set()
        """
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: loader(workers=-1),
        lambda: rota.Loader("no source"),
        lambda: rota.StreamLoader(rota.as_stream(source(4), 1), 0),
        lambda: rota.Catalog("/nonexistent"),
        lambda: rota.CheckpointDirectory(None, "/tmp", writer="x"),
        lambda: rota.mpi.Communicator(5),
        lambda: rota.ElasticBatchSampler(-1, 4),
    ],
)
def test_what_could_not_be_made_can_be_shown(make):
    with pytest.raises(Exception) as caught:
        make()
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "<rota." in "".join(trace.format())


@pytest.mark.parametrize("what", ["transform", "collate"])
def test_a_loader_that_its_own_functions_lead_to_is_collected(what):
    class Holder:
        def __init__(self):
            fields = {"collate_fields": ["n"]} if what == "collate" else {}
            self.loader = loader(**{what: self.work}, **fields)

        def work(self, item):
            return {"n": item["n"].astype(np.uint8)} if what == "collate" else None

    one = Holder()
    one.loader.next()
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_samples_of_python_datasets_leave_no_references_behind():
    dataset = rows(64)
    counts = [sys.getrefcount(row["x"]) for row in dataset]
    for _ in rota.Loader(rota.PythonSource(dataset), 8, workers=2, epochs=3, world=(0, 1), transform=lambda s: None):
        pass
    gc.collect()
    assert [sys.getrefcount(row["x"]) for row in dataset] == counts
