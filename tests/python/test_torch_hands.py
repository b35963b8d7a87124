"""rota.torch.DataLoader in people's hands: prefetchers, collates, threads, processes."""

import pickle
import queue
import threading

import pytest
import rota

torch = pytest.importorskip("torch")
import rota.torch  # noqa: E402
from runs import refused  # noqa: E402


def loader(size=40, batch=4, dataset=None, collate_fn=None, num_workers=0, **options):
    sampler = rota.ElasticBatchSampler(size if dataset is None else dataset, batch, world=(0, 1), seed=3, **options)
    return rota.torch.DataLoader(range(size) if dataset is None else dataset, sampler, num_workers, collate_fn=collate_fn)


def ahead_by_one(run):
    """As Ray Train's prepare_data_loader has it."""
    batches = iter(run)
    following = next(batches)
    while following is not None:
        batch, following = following, next(batches, None)
        yield batch


def passing(run):
    """As tqdm has it."""
    yield from run


def test_each_batch_of_a_thread_that_draws_ahead_has_its_own_info_and_state():
    run, drawn = loader(), queue.Queue(3)

    def feed():
        for batch in run:
            drawn.put(batch)
        drawn.put(None)

    feeder = threading.Thread(target=feed)
    feeder.start()
    seen = []
    while (batch := drawn.get(timeout=60)) is not None:
        assert run.info_of(batch).ids.tolist() == batch.tolist()
        for ask in (lambda: run.info, run.state_dict):
            refused(ask, ValueError, r"draws batches ahead.*\(batch\)")
        seen += batch.tolist()
        if len(seen) == 12:
            state = run.state_dict(batch)
    feeder.join(60)
    rest = loader()
    rest.load_state_dict(state)
    assert seen[12:] == torch.cat(list(rest)).tolist() and sorted(seen) == list(range(40))


@pytest.mark.parametrize("collate_fn", [None, lambda samples: {"x": torch.tensor(samples)}, lambda samples: (torch.tensor(samples), "text")])
def test_what_draws_ahead_in_between_is_found_and_what_passes_on_is_not(collate_fn):
    run = loader(collate_fn=collate_fn)
    for batch in ahead_by_one(run):
        tensor = batch if collate_fn is None else batch["x"] if isinstance(batch, dict) else batch[0]
        assert run.info_of(batch).ids.tolist() == run.info_of(tensor).ids.tolist() == tensor.tolist()
        if run.position.step < 10:
            refused(lambda: run.info, ValueError, "info_of")
    refused(lambda: run.info_of(tensor.clone()), ValueError, "a copy is another one")
    kept = []
    for batch in passing(passing(run)):
        kept.append((batch, run.info))
    assert [info.ids.tolist() for _, info in kept] == [run.info_of(batch).ids.tolist() for batch, _ in kept]
    for step, _ in enumerate(passing(run)):
        if step == 5:
            assert run.info.step == run.position.step - 1  # the batches before have gone


def longest_first(samples, indices):
    order = sorted(range(len(samples)), key=lambda k: -samples[k])
    return {name: torch.tensor([of[k] for k in order]) for name, of in dict(x=samples, id=indices, real=[not i.is_pad for i in indices]).items()}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collate_that_sorts_keeps_the_mask_with_its_samples_and_one_that_drops_is_refused(workers):
    for batch in (run := loader(10, collate_fn=longest_first, num_workers=workers)):
        info = run.info
        assert batch["x"].tolist() == batch["id"].tolist() == sorted(info.ids.tolist(), reverse=True)
        assert sorted(batch["id"][batch["real"]].tolist()) == sorted(info.ids[info.mask].tolist())
    with pytest.raises(ValueError, match="3 rows.*a parameter `indices`"):
        next(iter(loader(10, collate_fn=lambda samples: torch.tensor(samples[1:]))))
    assert len(next(iter(loader(10, collate_fn=lambda samples, indices: torch.tensor(samples[1:]))))) == 3
    assert len(next(iter(loader(10, tail="drop", collate_fn=lambda samples: torch.tensor(samples[1:]))))) == 3


def test_a_loader_goes_to_other_processes_and_its_sampler_is_one_of_torchs():
    run = loader()
    assert isinstance(run.batch_sampler, torch.utils.data.Sampler)
    next(iter(run))
    there = pickle.loads(pickle.dumps(run))  # as torch.multiprocessing.spawn does
    there.restart(), run.restart()
    assert torch.cat(list(there)).tolist() == torch.cat(list(run)).tolist()


class Inside(torch.utils.data.IterableDataset):
    def __iter__(self):
        for batch in rota.Loader(rota.PythonSource([{"x": i} for i in range(20)]), 5):
            yield batch["x"].tolist()


def test_a_loader_in_each_of_several_workers_of_torchs_is_refused():
    assert len(list(torch.utils.data.DataLoader(Inside(), batch_size=None, num_workers=1))) == 4
    with pytest.raises(rota.UnsupportedError, match="each would read the same; say which part"):
        list(torch.utils.data.DataLoader(Inside(), batch_size=None, num_workers=2))


def test_a_dataset_that_has_grown_or_is_another_is_refused():
    dataset = list(range(20))
    run = loader(dataset=dataset)
    next(iter(run))
    dataset.append(20)
    refused(lambda: next(iter(run)), rota.MismatchError, "21 samples now, the sampler orders 20")
    files = [f"{i}.jpg" for i in range(20)]
    run = rota.torch.DataLoader(files, rota.ElasticBatchSampler(20, 4, world=(0, 1)))  # knows them by the loader
    other = rota.torch.DataLoader(files[::-1], rota.ElasticBatchSampler(20, 4, world=(0, 1)))
    refused(lambda: other.load_state_dict(run.state_dict()), rota.MismatchError, "sample 0 ")


def test_a_thread_that_saves_never_ends_the_loop_and_has_a_right_state():
    run, ends, states = loader(400), threading.Event(), []

    def save():
        while not ends.is_set():
            states.append(run.state_dict())

    saver = threading.Thread(target=save)
    saver.start()
    try:
        seen = torch.cat(list(run)).tolist()
    finally:
        ends.set()
        saver.join(60)
    assert sorted(seen) == list(range(400)) and states
    for state in states[:: max(len(states) // 10, 1)]:
        rest = loader(400)
        rest.load_state_dict(state)
        at = 400 if rest.position.epoch else rest.position.consumed
        assert seen[at:] == (torch.cat(list(rest)).tolist() if at < 400 else [])


def test_a_loop_goes_on_where_its_sampler_is_asked_past_the_end_or_is_given_a_dataset_that_tells_names():
    sampler = rota.ElasticBatchSampler(8, 4, world=(0, 1), epochs=1)
    sizes = []
    for batch in rota.torch.DataLoader(range(8), sampler):
        rota.torch.DataLoader([f"{k}.png" for k in range(8)], sampler)
        sizes.append(len(batch))
        assert len(sizes) < 2 or sampler.advance() is None
    assert sizes == [4, 4]


def test_what_profilers_record_of_torchs_loader_they_record_of_this_one():
    def recorded(run, **how):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **how) as profiler:
            for _ in run:
                pass
        return [event.name for event in profiler.events() if "DataLoader" in event.name]

    theirs = torch.utils.data.DataLoader(range(8), 4)
    assert recorded(loader(8)) == recorded(theirs) != []
