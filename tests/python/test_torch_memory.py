"""Long runs of torch.distributed: memory, files and threads do not grow."""

import pytest

pytest.importorskip("torch", minversion="2")
from torch_jobs import Job  # noqa: E402

STEPS = """
def rss(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

comm = rota.torch.Communicator(deadline=60)
if sys.argv[4] == "streams":
    loader = rota.StreamLoader(Endless(), 8, comm=comm, deadline=60)
elif sys.argv[4] == "torch":
    class Some(torch.utils.data.Dataset):
        def __len__(self): return 10**6
        def __getitem__(self, i): return i if i % 1000 else 1 // 0
    stop = rota.torch.StopSignal(comm)
    sampler = rota.ElasticBatchSampler(10**6, 8)
    loader = rota.torch.DataLoader(Some(), sampler, on_bad_sample="skip", max_skipped=10**6, bad_errors=[ZeroDivisionError])
else:
    loader = rota.Loader(rows(bad=7), 8, comm=comm, on_bad_sample="skip", max_skipped=10**6, io_retries=0, deadline=60)
taken = []
for step, batch in enumerate(loader):
    if sys.argv[4] == "torch": assert loader.info.mask is not None and loader.state_dict() and not stop.requested()
    if step % 9000 == 1000: taken.append(rss() / 2**20)
    if len(taken) == 3: break
print(min(taken[1] - taken[0], taken[2] - taken[1]))  # what allocators take once is in one of them
"""


@pytest.mark.parametrize("kind", ["streams", "samples", "torch"])
def test_ten_thousand_steps_take_no_more_memory_than_one_thousand(tmp_path, kind):
    with Job(tmp_path, STEPS, 2, kind) as job:
        assert job.codes(300) == [0, 0], job.texts()
        assert all(float(job.said(rank)) < 2 for rank in range(2)), job.texts()


MADE = """
def open_now(): return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

def use():
    comm = rota.torch.Communicator(deadline=60)
    part = comm.data_parallel(rank)
    stream = rota.StreamLoader(Numbers(), 8, comm=comm, deadline=60)
    items = rota.StreamLoader(dispatch(), 8, comm=comm, deadline=60)
    samples = rota.Loader(rows(length=60), 8, comm=part, on_bad_sample="skip", deadline=60)
    for loader in stream, items, samples:
        for _ in range(3): loader.next()
        loader.close()
    with rota.CheckpointDirectory(comm, path + "/checkpoints", deadline=60) as directory:
        directory.save_async(1, {"w": rota.Rows(np.zeros(3))})
    part.close()
    comm.close()

import gc
gc.disable()  # nothing waits for Python's collector
counts = []
for _ in range(50):
    use()
    counts.append(open_now())
print(counts)
# A group dies with one of the next, when others have closed it: sooner or later there are as few as there were.
least = np.min(counts[:10], axis=0)
for _ in range(200):
    more = torch.tensor(max(open_now() - least))
    dist.all_reduce(more, dist.ReduceOp.MAX)
    if more <= 0: break
    use()
print(int(more))
"""


def test_communicators_and_loaders_that_are_closed_leave_no_file_and_no_thread(tmp_path):
    with Job(tmp_path, MADE, 2) as job:
        assert job.codes(300) == [0, 0], job.texts()
        assert all(int(job.said(rank).splitlines()[-1]) <= 2 for rank in range(2)), job.texts()
