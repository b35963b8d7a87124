"""Loaders that end in mid-read, in other threads, in forked children, and with Python."""

import bz2
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rota
import rota.mpi
from runs import in_child, loader, python, refused, rows, source

no_threads_in_children = pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="tsan has none")


@pytest.mark.parametrize("kept", ["", "batch, rows = loader.next(), loader.next()['x']"])
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


SLOW = {
    "samples": "rota.Loader(rota.PythonSource(Slow(), {'x': 'float64'}), 256, workers=2)",
    "transform": "rota.Loader(rota.PythonSource(range(1000)), 256, workers=2, transform=lambda sample: Slow()[0] and None)",
    "streams": "rota.StreamLoader(rota.as_stream(rota.PythonSource(Slow(), {'x': 'float64'}), 4), 256, workers=2)",
}


@pytest.mark.parametrize("seconds, begin", [(0.1, "for loader in [{}]"), (60, "for loader in [{}]"), (60, "with {} as loader")])
@pytest.mark.parametrize("kind", SLOW)
def test_ctrl_c_ends_a_loop_at_once_and_its_process_behind_the_sample_in_hand(kind, seconds, begin):
    program = f"""
import time
import rota
class Slow:
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep({seconds})
        return {{"x": 1.0}}
try:
    {begin.format(SLOW[kind])}:
        print("begun", flush=True)
        try:
            next(iter(loader))
        finally:
            print("interrupted", flush=True)
except KeyboardInterrupt:
    pass
"""
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            time.sleep(0.5)  # workers read
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            told = time.monotonic() - begun
            assert (process.wait(30), process.stderr.read()) == (0, "")
            assert told < 10 and time.monotonic() - begun < 20
        finally:
            process.kill()


HOLDERS = [
    "held = rota.PythonSource(Rows())",
    "held = rota.join([rota.PythonSource(Rows()), rota.cast(rota.PythonSource(Rows()), {'x': 'int64'})])",
    "held = rota.filter(Items(), keep)",
    "held = rota.flat_map(rota.shuffle_buffer(Items(), 10, 1), lambda sample: [sample], fields={'x': 'int64'})",
    "held = rota.as_stream(rota.PythonSource(Rows()), 2)",
    "held = rota.Catalog(sys.executable, progress=keep)",
    "held = rota.Loader(rota.PythonSource(Rows()), 4, transform=lambda s: keep(s) and None); batch = held.next()",
    "held = rota.StreamLoader(rota.filter(Items(), keep)); batch = held.next()",
    "held = [rota.PythonSource(Rows()) for _ in range(3)]; held.append(held)",
]


@pytest.mark.parametrize("held", HOLDERS)
def test_what_a_script_wrote_is_there_when_python_ends(held, tmp_path):
    python(
        f"""
        import bz2, sys
        import rota
        log, packed = open(sys.argv[1], "w"), bz2.open(sys.argv[2], "wt")
        class Rows:
            def __len__(self): return 10
            def __getitem__(self, i): return {{"x": i}}
        class Items(rota.Stream):
            fields = {{"x": "int64"}}
            def open(self, shard, epoch, cursor): return ((dict(x=i), i + 1) for i in range(cursor or 0, 10))
        def keep(_): return True
        {held}
        for i in range(100):
            print(i, file=log)
            print(i, file=packed)
        """,
        tmp_path / "log",
        tmp_path / "packed",
    )
    lines = "".join(f"{i}\n" for i in range(100))
    assert (tmp_path / "log").read_text() == lines and bz2.open(tmp_path / "packed", "rt").read() == lines


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


# What runs last keeps Python's lock, until Python ends: who asks for it meanwhile never gets it.
KEEPS_THE_LOCK = """
import atexit, ctypes, socket, threading, time
keep, silent = ctypes.PyDLL(None).usleep, socket.create_server(("127.0.0.1", 0))
atexit.register(keep, 1_000_000), atexit.register(lambda: time.sleep(pause))  # the latter first, when rota has closed
import rota
pause, inside = 0, threading.Event()
class Items(rota.Stream):
    fields, shards = {"x": "int64"}, 4
    def open(self, shard, epoch, cursor):
        try: yield from (({"x": i}, inside.set() or i + 1) for i in range(cursor or 0, 1000))
        finally: keep(1_500_000)  # longer than close_all waits
class Slow:
    def __len__(self): return 100
    __getitem__ = get = lambda self, i: inside.set() or time.sleep(1.5) or {"x": i}
threading.excepthook = lambda raised: None  # Python ends
def start(call): threading.Thread(target=lambda: inside.set() or call(), daemon=True).start()
"""
ASKS = {
    "samples are read": "loader = rota.Loader(rota.PythonSource(Slow(), {'x': 'int64'}), 4, workers=2)",
    "samples change": "loader = rota.Loader(rota.PythonSource(range(100)), 4, workers=2, transform=lambda sample: Slow()[0])",
    "streams close": "loader = rota.StreamLoader(Items(), 8); loader.next()",
    "a sample is made": """
pause, made, rota.StreamSample.__init__ = 1, rota.StreamSample.__init__, lambda *given: time.sleep(1.5) or made(*given)
start(rota.StreamLoader(rota.filter(Items(), bool), 4).next)""",
    "a state is read": "pause = 1; [start(lambda: rota.ElasticBatchSampler(9, 4, world=(0, 1)).load_state_dict(Slow())) for _ in range(9)]",
    "a thread waits": "start(lambda: rota.Catalog(f'http://127.0.0.1:{silent.getsockname()[1]}/items.jsonl'))",
}


def asks(what):
    return f"{KEEPS_THE_LOCK}\n{ASKS[what]}\nassert inside.wait(30); time.sleep(0.1)"


@pytest.mark.parametrize("what", ASKS)
def test_python_ends_while_a_thread_asks_for_its_lock(what):
    python(asks(what))


def test_loaders_are_made_and_dropped_in_mid_read_by_many_threads():
    def work(seed):
        draw = random.Random(seed)
        for _ in range(7):
            one = loader(4000, workers=draw.randint(0, 3))
            for _ in range(draw.randint(0, 5)):
                one.next()
        return True

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(6), timeout=100))


def test_a_batch_is_dropped_by_another_thread_than_got_it():
    one = loader(workers=2, epochs=None)
    for _ in range(50):
        batch = [one.next()]
        thread = threading.Thread(target=batch.clear)
        thread.start()
        thread.join(60)


@no_threads_in_children
def test_a_forked_child_is_refused_its_parents_loader_and_may_make_its_own():
    one = loader(workers=2)
    first = one.next()

    def child():
        for touch in (one.next, one.state_dict, lambda: one.position, lambda: list(one)):
            try:
                touch()
                return 1
            except rota.UnsupportedError as error:
                assert "fork" in str(error)
        return 0 if sum(batch.size for batch in loader(workers=2)) == 40 else 2

    assert in_child(child) == 0
    assert one.next().start.step == 1 and first.size == 8


def test_a_forked_child_ends_in_order_with_its_parents_loader():
    python(
        """
        import gc, os, rota
        loader = rota.Loader(rota.PythonSource(range(999)), 4, world=(0, 1))
        batch = loader.next()
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0 and batch.size == 4
        gc.collect()
        """
    )


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it keeps what was freed")
def test_arrays_kept_and_dropped_at_random_leave_no_memory_behind(tmp_path):
    (tmp_path / "lines.jsonl").write_text("".join(f"{i:0{i % 50}}\n" for i in range(2000)))
    draw, kept = random.Random(1), []
    ragged = rota.Loader(rota.open(tmp_path), 4, workers=1, epochs=None, world=(0, 1))
    fixed = loader(2000, 4, workers=1, epochs=None)
    for step in range(40_000):
        kept.append(ragged.next()["text"][draw.randint(0, 3)] if step % 10 else fixed.next()[draw.choice(("x", "n"))])
        if draw.random() < 0.5:
            kept = kept[-draw.randint(1, 20) :]
        if step == 8_000:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 10  # KiB


def test_sources_die_while_another_thread_collects(tmp_path):
    (tmp_path / "a.jsonl").write_text("1\n2\n")
    python(
        """
        import gc, rota, sys, threading
        over = threading.Event()
        def collect():
            while not over.is_set(): gc.collect()
        for _ in range(2): threading.Thread(target=collect).start()
        for _ in range(450): rota.open(sys.argv[1], "lines")
        over.set()
        """,
        tmp_path,
    )


@pytest.mark.parametrize("make", [
    lambda: loader(workers=-1), lambda: rota.Loader("no source"), lambda: rota.Catalog("/nonexistent"),
    lambda: rota.StreamLoader(rota.as_stream(source(4), 1), 0), lambda: rota.ElasticBatchSampler(-1, 4),
    lambda: rota.CheckpointDirectory(None, "/tmp", deadline=-1),
])  # fmt: skip
def test_what_could_not_be_made_can_be_shown(make):
    caught = refused(make, Exception)
    trace = traceback.TracebackException.from_exception(caught, capture_locals=True)
    assert "<rota." in "".join(trace.format())


@pytest.mark.parametrize("what, fields", [("transform", {}), ("collate", {"collate_fields": ["n"]})])
def test_a_loader_that_its_own_functions_lead_to_is_collected(what, fields):
    class Holder:
        def __init__(self):
            self.loader = loader(**{what: self.work}, **fields)

        def work(self, item):
            return {"n": item["n"].astype(np.uint8)} if fields else None

    one = Holder()
    one.loader.next()
    gone, end = weakref.ref(one), time.monotonic() + 60
    del one
    while gone() is not None and time.monotonic() < end:  # a worker may be inside of its function
        gc.collect()
    assert gone() is None


def test_loaders_of_python_datasets_leave_no_references_behind():
    class Dataset(list):
        pass

    dataset = Dataset(rows(64))
    counts = [sys.getrefcount(row["x"]) for row in dataset]
    for _ in rota.Loader(rota.PythonSource(dataset), 8, workers=2, epochs=3, world=(0, 1), transform=lambda s: None):
        pass
    gc.collect()
    assert [sys.getrefcount(row["x"]) for row in dataset] == counts
    gone = weakref.ref(dataset)
    del dataset
    assert gone() is None


class Interrupting:
    """A dataset, of which reading sample 21 for the first time does `what`."""

    def __init__(self, what):
        self.what = what

    def __len__(self):
        return 40

    def __getitem__(self, i):
        what, self.what = (self.what, None) if i == 21 else (None, self.what)
        if what:
            what()
            time.sleep(0.005)
        return {"x": i}


def stream_of(dataset):
    return rota.StreamLoader(rota.as_stream(rota.PythonSource(dataset, fields={"x": "int64"}), 1), 4, workers=1)


def loader_of(dataset, workers=1, **options):
    source = rota.PythonSource(dataset, fields={"x": "int64"})
    return rota.Loader(source, 4, shuffle="none", workers=workers, read_ahead_batches=1, **options)


def take(loader):
    return loader.next()


def ids_despite(loader, error):
    """What all calls of next() give, of which one raises `error`."""
    seen, raised, batch = [], 0, ()
    while batch is not None:
        try:
            batch = take(loader)
        except error:
            raised += 1
            continue
        seen += [] if batch is None else batch["x"].tolist()
    assert raised == 1
    return seen


def interrupt():
    """As Ctrl-C does, once the main thread waits for a batch."""

    def waits(frame):
        return frame is not None and (frame.f_code is take.__code__ or waits(frame.f_back))

    def frame():
        return sys._current_frames()[threading.main_thread().ident]

    until, seen = time.monotonic() + 60, None
    while not (frame() is seen and waits(seen)) and time.monotonic() < until:  # and has been in there for a while
        seen = frame()
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


@no_threads_in_children
def test_ctrl_c_ends_a_wait_of_a_child_that_any_thread_forked():
    def child():
        loader = loader_of(Interrupting(interrupt))
        os._exit(0 if ids_despite(loader, KeyboardInterrupt) == list(range(40)) else 1)

    def fork():
        number = os.fork()
        if number == 0:
            signal.alarm(60)
            child()
        codes.append(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))

    codes = []
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(90)
    assert codes == [0]


class Stopped(BaseException):
    pass


def stop(*_):
    raise Stopped


@pytest.mark.parametrize("handler, error", [(signal.default_int_handler, KeyboardInterrupt), (stop, Stopped)])
@pytest.mark.parametrize("make", [loader_of, stream_of])
def test_a_signal_ends_a_wait_and_loses_no_batch(make, handler, error):
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert ids_despite(make(Interrupting(interrupt)), error) == list(range(40))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_is_no_bad_sample_and_not_tried_again(workers, error):
    def leave():
        raise error

    loader = loader_of(Interrupting(leave), workers, on_bad_sample="skip")
    assert ids_despite(loader, error) == list(range(40))
    assert not loader.skipped
