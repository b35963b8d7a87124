"""rota.torch: torch's own DataLoader in rota's order, tensors, copies."""

import gc
import json
import pickle
import random

import numpy as np
import pytest
import rota

torch = pytest.importorskip("torch")
import rota.torch  # noqa: E402
from runs import loader as loader_of_rota  # noqa: E402
from runs import refused

SAMPLES = 61


class Noisy(torch.utils.data.Dataset):
    """Samples with augmentation of all three kinds."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return int(i), random.random() + np.random.rand() + torch.rand(()).item()


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(int, 1)


def loader(rank=0, size=1, workers=0, options=None, **sampler):
    made = rota.ElasticBatchSampler(SAMPLES, 8, **{"world": (rank, size), "seed": 7, **sampler})
    return rota.torch.DataLoader(rota.torch.seeded(Noisy()), made, num_workers=workers, **(options or {}))


def take(run, steps):
    """(epoch, id, augmentation) of what counts, in the next `steps` batches."""
    seen = []
    for step, batch in enumerate(run, 1):
        info = run.info
        for id, noise, known, epoch, counts in zip(*(batch or ((), ())), info.ids, info.epochs, info.mask):
            assert id == known
            if counts:
                seen.append((int(epoch), int(id), float(noise)))
        if step == steps:
            break
    return seen


@pytest.mark.parametrize("tail", ["pad", "partial", "carry", "drop"])
@pytest.mark.parametrize("seed", range(2))
def test_any_worlds_and_workers_give_the_same_samples_with_the_same_augmentation(tail, seed):
    draw = random.Random(seed)
    expected = sorted(take(loader(tail=tail, epochs=2), 10**6))
    assert len({sample[:2] for sample in expected}) == len(expected)
    assert len(expected) == (2 * 56 if tail == "drop" else 2 * SAMPLES)
    seen, state, is_over = [], None, False
    while not is_over:
        ranks, workers, steps = draw.randint(1, 3), draw.choice((0, 0, 1, 3)), draw.randint(1, 7)
        options = dict(persistent_workers=workers > 0, prefetch_factor=draw.randint(1, 4)) if workers else {}
        run = [loader(rank, ranks, workers, options, tail=tail, epochs=2) for rank in range(ranks)]
        for one in run:
            one.load_state_dict(state or one.state_dict())
            seen += take(one, steps)
        assert len({one.state_dict()["rota"] for one in run}) == 1
        state = run[0].state_dict()
        is_over = json.loads(state["rota"])["position"]["epoch"] == 2 or run[0].batch_sampler.batch(run[0].position.step) is None
    assert sorted(seen) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_persistent_workers_go_on_behind_a_break(workers):
    run = loader(workers=workers, options=dict(persistent_workers=True) if workers else {})
    seen = take(run, 3) + take(run, 2) + take(run, 10**6)
    assert run.position == (1, 0, 8)
    assert sorted(id for _, id, _ in seen) == list(range(SAMPLES))
    assert {epoch for epoch, _, _ in take(run, 10**6)} == {1}


def test_a_batch_is_counted_before_the_body_gets_it():
    run = loader()
    for step, _ in enumerate(run, 1):
        assert run.position.step == run.info.end.step == step
        assert json.loads(run.state_dict()["rota"])["position"]["step"] == step


def test_len_is_that_of_an_epoch_and_tqdm_needs_no_more():
    assert len(loader()) == 8 == sum(1 for _ in loader()) and len(loader(epochs=3)) == 24


def test_a_loader_is_generic_tells_what_it_is_and_can_be_pickled():
    sampler = rota.ElasticBatchSampler(SAMPLES, 8, world=(0, 1))
    run = rota.torch.DataLoader[tuple](Noisy(), batch_sampler=sampler)
    take(run, 3)
    assert "8, rank 0 of 1, at epoch 0, sample 24, step 3>, 0 workers" in repr(run)
    again = pickle.loads(pickle.dumps(run))
    assert again.position == run.position
    assert [id for _, id, _ in take(again, 2)] == [id for _, id, _ in take(run, 2)]
    for given in {}, dict(sampler=sampler, batch_sampler=sampler):
        refused(lambda: rota.torch.DataLoader(Noisy(), **given), TypeError, "as sampler or as batch_sampler")


def test_trainers_see_that_a_loader_shares_samples_by_itself():
    run = loader(1, 2)
    run.sampler.set_epoch(5)
    assert isinstance(run.sampler, torch.utils.data.DistributedSampler) and list(run.sampler) == []
    assert (run.sampler.rank, run.sampler.num_replicas, run.position.epoch) == (1, 2, 0)
    assert run._is_accelerate_prepared and run.use_stateful_dataloader


def test_an_error_of_the_dataset_leaves_the_position():
    class Fails(Noisy):
        def __getitem__(self, i):
            return super().__getitem__(i // works)

    works = 0
    run = rota.torch.DataLoader(Fails(), rota.ElasticBatchSampler(SAMPLES, 8, world=(0, 1)))
    refused(lambda: list(run), ZeroDivisionError)
    assert run.position.step == 0
    works = 1
    assert sorted(id for _, id, _ in take(run, 100)) == list(range(SAMPLES))


@pytest.mark.parametrize(
    "move", [lambda run: run.load_state_dict(run.state_dict()), lambda run: run.batch_sampler.set_global_batch_size(4), list]
)
def test_a_for_ends_where_its_loader_was_moved(move):
    run = loader()
    with pytest.raises(ValueError, match="begin a new one"):
        for _ in run:
            move(run)


def test_torchs_own_generator_is_left_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    list(loader())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_rank_without_samples_gets_none():
    run = [loader(rank, 8, tail="partial") for rank in range(8)]
    last = [list(one)[-1] for one in run]
    assert [batch is None for batch in last] == [len(one.info.ids) == 0 for one in run]
    assert any(batch is None for batch in last)


def test_states_are_plain_and_have_the_same_keys_before_the_first_batch(tmp_path):
    run = loader()
    fresh = run.state_dict()
    take(run, 3)
    assert run.stats["batches"] == 3 and run.stats["wait_seconds"] > 0
    torch.save({"loader": run.state_dict()}, tmp_path / "state")
    saved = torch.load(tmp_path / "state", weights_only=True)["loader"]
    assert saved.keys() == fresh.keys() and all(isinstance(value, str) for value in saved.values())
    run = loader()
    run.load_state_dict(saved)
    assert run.position.step == 3


def test_seeded_datasets_want_keys_and_forward_the_rest():
    inner = Noisy()
    dataset = rota.torch.seeded(inner)
    inner.classes = ["a"]
    assert len(dataset) == SAMPLES and dataset.classes == ["a"]
    refused(lambda: dataset[3], TypeError, "ElasticBatchSampler")
    one, other = (rota.Index.of(3, epoch, 7) for epoch in (0, 1))
    before = random.getstate()
    assert dataset[one] == dataset[one] != dataset[other]
    assert random.getstate() == before


def test_seeds_hold_where_torch_asks_for_many_samples_at_once():
    class Many(Noisy):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    def values():
        sampler = rota.ElasticBatchSampler(SAMPLES, 8, world=(0, 1))
        return torch.cat([batch[1].flatten() for batch in rota.torch.DataLoader(rota.torch.seeded(Many()), sampler)])

    assert torch.equal(values(), values())
    dataset = rota.torch.seeded(Many())
    indices = [rota.Index.of(i, 0, 7) for i in range(4)]
    assert dataset.__getitems__(indices) == [dataset[i] for i in indices]


def test_loaders_are_saved_with_what_they_delivered_and_those_that_do_not_count_are_not(tmp_path):
    plain = torch.utils.data.DataLoader(range(SAMPLES), batch_sampler=rota.ElasticBatchSampler(SAMPLES, 8, world=(0, 1)))
    one, two = loader(), loader()
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        refused(lambda: directory.save(0, plain), TypeError, "take rota.torch.DataLoader")
        run = iter(one)
        for _ in range(3):
            next(run)
        directory.save(3, one)
        directory.restore(two)
        assert two.position.step == 3 and next(iter(two))[0].tolist() == next(run)[0].tolist()
        changes = two.batch_sampler.changes
        directory.restore(two)
        assert two.batch_sampler.changes == changes + 1  # a `for` that goes on would give batches drawn before


def test_tensors_are_over_the_memory_of_the_batch():
    batch = loader_of_rota(20, 4).next()
    tensors = rota.torch.tensors(batch)
    assert tensors["x"].data_ptr() == batch["x"].ctypes.data and tensors.batch is batch
    kept, values = tensors["x"], batch["x"].tolist()
    del batch, tensors
    gc.collect()
    assert kept.tolist() == values


def test_bfloat16_is_torchs_own():
    data = rota.PythonSource([np.array([0x3F80, 0x4000], np.uint16)], [("half", "bfloat16", (2,))])
    assert rota.torch.tensors(rota.Loader(data, 1, world=(0, 1)).next())["half"].tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_copies_ahead_are_not_counted(device):
    run = rota.torch.to_device(loader_of_rota(40, 4, shuffle="none", shards=1), device, ahead=3)
    for step, tensors in enumerate(run, 1):
        assert tensors["x"].device.type == device and run.position.step == step
        assert tensors.batch.ids.tolist() == list(range(4 * step - 4, 4 * step))
        if step == 4:
            state = run.state_dict()
    assert step == 10
    run.load_state_dict(state)
    assert next(run).batch.ids.tolist() == [16, 17, 18, 19]


def test_pinned_memory_is_plain_without_cuda():
    allocator = rota.torch.pinned()
    assert (allocator is None) == (not torch.cuda.is_available())
    assert sum(batch.size for batch in loader_of_rota(20, 4, allocator=allocator)) == 20


def test_what_is_no_batch_sampler_of_rota_is_refused():
    sampler = rota.ElasticBatchSampler(SAMPLES, 8, world=(0, 1))
    for wrong, error, message in [
        (lambda: rota.torch.DataLoader(Noisy(), [[1]]), TypeError, "list is no rota.ElasticBatchSampler"),
        (lambda: rota.torch.DataLoader(Noisy(), sampler, batch_size=4), TypeError, "batch_size= is the sampler's"),
        (lambda: rota.torch.DataLoader(Noisy(), sampler, shuffle=True), TypeError, "shuffle= is the sampler's"),
        (lambda: rota.torch.DataLoader(Noisy(), sampler, in_order=False), ValueError, "another order at every run"),
        (lambda: rota.torch.DataLoader(range(60), sampler), ValueError, "has 60 samples, the sampler orders 61"),
        (lambda: rota.torch.DataLoader(Endless(), sampler), TypeError, "an order of its own"),
        (lambda: rota.torch.DataLoader(Noisy(), sampler).info, ValueError, "none was delivered"),
    ]:
        refused(wrong, error, message)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_old_for_takes_nothing_from_a_new_one(workers):
    run = loader(workers=workers, options=dict(persistent_workers=True) if workers else {}, shuffle="none", shards=1)
    old = iter(run)
    next(old)
    new = iter(run)
    next(new)
    refused(lambda: next(old), ValueError, "begin a new one")
    for ids, _ in new:
        assert ids.tolist() == run.info.ids.tolist()


def test_a_copy_that_fails_loses_nothing(monkeypatch):
    run = rota.torch.to_device(loader_of_rota(24, 4, shuffle="none", shards=1), "meta", ahead=2)
    tensors, calls = rota.torch.tensors, []

    def fail_third(batch):
        calls.append(batch)
        if len(calls) in (3, 4):
            raise MemoryError("no")
        return tensors(batch)

    monkeypatch.setattr(rota.torch, "tensors", fail_third)
    seen = []
    while len(seen) < 6:
        try:
            seen.append(next(run).batch.ids.tolist())
        except MemoryError:
            assert run.position.step == len(seen)
    assert seen == [list(range(4 * k, 4 * k + 4)) for k in range(6)]


def test_workers_of_other_ranks_and_steps_draw_other_numbers():
    class Draws(Noisy):
        def __getitem__(self, i):
            return torch.rand(()).item()

    def draws(rank, steps):
        sampler = rota.ElasticBatchSampler(SAMPLES, 8, world=(rank, 2))
        for _ in range(steps):
            sampler.advance()
        return next(iter(rota.torch.DataLoader(Draws(), sampler, num_workers=1))).tolist()

    assert len({tuple(draws(rank, steps)) for rank in (0, 1) for steps in (0, 3)}) == 4
    assert draws(1, 3) == draws(1, 3)


class Batches(torch.utils.data.Dataset):
    """Whose samples of a batch come as one tensor, of which there must be one."""

    def __getitems__(self, indices):
        return torch.stack([torch.tensor(float(i)) for i in indices])


def test_a_dataset_that_reads_many_at_once_is_not_asked_for_none():
    for rank in range(4):
        sampler = rota.ElasticBatchSampler(25, 12, tail="partial", world=(rank, 4))
        loader = rota.torch.DataLoader(Batches(), sampler, collate_fn=lambda batch: batch)
        batches = [*loader]
        assert [len(batch) for batch in batches[:2]] == [3, 3]
        assert len(batches[2]) == 1 if rank == 3 else batches[2] is None
