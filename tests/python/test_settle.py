"""Samples that are settled by hand: of loaders and samplers, by threads, over restarts."""

import collections
import itertools
import os
import pickle
import random
import threading
import time

import pytest
import rota


def loader(n=100, batch=10, **options):
    return rota.Loader(rota.PythonSource([{"x": i} for i in range(n)]), batch, **{"settle": "by_hand", **options})


def sampler(n=100, batch=10, **options):
    return rota.ElasticBatchSampler(n, batch, settle="by_hand", **{"epochs": 1, "world": (0, 1), **options})


def ids_of(batch):
    return [int(id) for id, is_real in zip(batch.ids, batch.mask) if is_real]


# ---- how samples are named ----


@pytest.mark.parametrize("by", ["batch", "arrays", "numbers"])
def test_samples_of_a_loader_are_named(by):
    np = pytest.importorskip("numpy")
    made = loader(20, workers=0)
    batch = made.next()
    assert made.open.out == 10
    if by == "batch":
        made.settle(batch)
    elif by == "arrays":
        made.settle(np.asarray(batch.ids), np.asarray(batch.epochs))
    else:
        for id in batch.ids:
            made.settle(int(id), 0)
    assert made.open.out == 0
    with pytest.raises(ValueError, match="settled or dropped before"):
        made.settle(int(batch.ids[0]), 0)


def test_samples_of_a_sampler_are_named_by_its_indices():
    made = sampler(25, 10, seed=3)
    first, second, third = made
    made.settle(first)
    made.settle(pickle.loads(pickle.dumps(second[0])))
    made.settle(second[1:])
    assert made.open.out == 5
    assert sum(index.is_pad for index in third) == 5
    made.settle(third)  # as a batch: what pads it does not count
    with pytest.raises(ValueError, match="pads its batch"):
        made.settle([index for index in third if index.is_pad])
    with pytest.raises(ValueError, match="of seed 4, and this run of 3"):
        made.settle(rota.Index.of(1, 0, 4))
    for wrong in (17, [17], "text", [1.5]):
        with pytest.raises(ValueError, match="name samples"):
            made.settle(wrong)
    with pytest.raises(ValueError, match="2 ids and 3 epochs"):
        made.settle([1, 2], [0, 0, 0])


def test_who_does_not_settle_by_hand_is_told():
    with pytest.raises(ValueError, match="settle"):
        rota.Loader(rota.PythonSource([{"x": 1}]), 1).settle([0], 0)
    with pytest.raises(ValueError, match="settle"):
        rota.ElasticBatchSampler(10, 1, world=(0, 1)).again()
    with pytest.raises(ValueError, match="evaluation"):
        sampler(evaluation=True, epochs=None)
    with pytest.raises(ValueError, match="evaluation"):
        loader(evaluation=True)
    stream = rota.as_stream(rota.PythonSource([{"x": 1}]), 1)
    with pytest.raises(ValueError, match="settle"):
        rota.StreamLoader(stream, 1, comm=None, settle="by_hand")
    for given in stream, rota.Dispatch(stream):
        made = rota.StreamLoader(given, 1, comm=None)
        for ask in made.merge, made.again, lambda made=made: made.settle(0, 0), lambda made=made: made.drop(0, 0, reason=""):
            with pytest.raises(ValueError, match="counts as trained"):
                ask()
    with pytest.raises(ValueError, match='without settle="by_hand"'):
        rota.ElasticBatchSampler(10, 1, world=(0, 1)).merge(None)
    for make in (sampler, loader):
        for limit in (0, -1, 2**63, 1.5):
            with pytest.raises((ValueError, TypeError), match="open_limit"):
                make(open_limit=limit)


@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="tsan has no threads in children")
@pytest.mark.parametrize("make", [sampler, lambda: loader(workers=0)])
def test_a_forked_child_settles_nothing(make):
    pytest.importorskip("numpy")
    from runs import in_child

    made = make()
    batch = next(iter(made))

    def child():
        for touch in (made.settle, made.again, made.try_settle, lambda some: made.drop(some, reason="stale")):
            with pytest.raises(rota.UnsupportedError, match="forked"):
                touch(batch)

    assert in_child(child) == 0
    assert made.open.out == 10
    made.settle(batch)


# ---- threads ----


def test_threads_settle_while_another_waits_for_room():
    made = loader(1000, 10, open_limit=20, workers=1, deadline=60.0)
    todo, trained = collections.deque(), []
    is_over = threading.Event()

    def consume():
        while not (is_over.is_set() and not todo):
            try:
                id = todo.popleft()
            except IndexError:
                continue
            trained.append(id)
            made.settle(id, 0)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    while (batch := made.next()) is not None:
        todo.extend(ids_of(batch))
    is_over.set()
    for thread in threads:
        thread.join()
    assert sorted(trained) == list(range(1000))
    assert made.open.out == 0


def test_a_state_is_taken_while_another_thread_waits_for_room():
    made = loader(100, 10, open_limit=10, workers=0, deadline=60.0)
    drawn = []
    thread = threading.Thread(target=lambda: drawn.extend(made.next() for _ in range(2)))
    thread.start()
    while made.open.out < 10:
        pass
    time.sleep(0.1)  # it waits, most likely
    state = made.state_dict()
    made.again()
    thread.join()
    other = loader(100, 10, workers=0)
    other.load_state_dict(state)
    assert other.next().ids.tolist() == drawn[0].ids.tolist()


# ---- runs that are killed ----


def live(make, draw, random, log, state, steps):
    """A process: what it trains until it is killed goes with the state that it saved last."""
    made = make()
    if state:
        made.load_state_dict(state)
    kept = list(log)
    out = []
    batches = draw(made)
    for _ in range(steps):
        act = random.randrange(10)
        if act < 5:
            out += next(batches, [])
        elif act < 8 and out:
            random.shuffle(out)
            for name in [out.pop() for _ in range(random.randrange(len(out) + 1))]:
                made.settle(*name)
                log.append(name)
        elif act == 8 and out:
            made.again(*out.pop())
        else:
            state, kept = made.state_dict(), list(log)
    return state, kept


def draw_of_loader(made):
    while (batch := made.next()) is not None:
        yield [(int(id), int(epoch)) for id, epoch, is_real in zip(batch.ids, batch.epochs, batch.mask) if is_real]


def draw_of_to_device(made):
    import rota.torch

    for tensors in rota.torch.to_device(made, "meta", settle="by_hand"):
        batch = tensors.batch
        yield [(int(id), int(epoch)) for id, epoch, is_real in zip(batch.ids, batch.epochs, batch.mask) if is_real]


def draw_of_sampler(made):
    for batch in made:
        yield [(int(index), index.epoch) for index in batch if not index.is_pad]


@pytest.mark.parametrize("kind", ["loader", "sampler", "to_device"])
@pytest.mark.parametrize("seed", range(20))
def test_each_sample_is_trained_once(kind, seed):
    pytest.importorskip("torch" if kind == "to_device" else "numpy")
    chance = random.Random(seed)
    tail = chance.choice(["partial", "pad", "carry"])
    options = {"tail": tail, "seed": seed, "shuffle": chance.choice(["none", "global", "within"]), "epochs": 2}
    draw = {"loader": draw_of_loader, "sampler": draw_of_sampler, "to_device": draw_of_to_device}[kind]

    def make():
        size = chance.randrange(1, 30)
        return sampler(60, size, **options) if kind == "sampler" else loader(60, size, workers=chance.randrange(3), **options)

    state, log = None, []
    for _ in range(5):
        state, log = live(make, draw, chance, log, state, 40)
    made = make()
    if state:
        made.load_state_dict(state)
    for names in draw(made):
        for name in names:
            made.settle(*name)
            log.append(name)
    assert sorted(log) == [(id, epoch) for id in range(60) for epoch in range(2)]


def test_ranks_merge_their_states():
    ranks = [loader(100, 9, world=(rank, 3), workers=0) for rank in range(3)]
    names = {rank: [(int(id), 0) for id in made.next().ids] for rank, made in enumerate(ranks)}
    for rank, made in enumerate(ranks):
        made.settle(*names[rank][0])
    parts = [made.state_dict() for made in ranks]
    with pytest.raises(rota.MismatchError, match="merge_states"):
        loader(100, 9, workers=0).load_state_dict(parts[0])
    with pytest.raises(ValueError, match="one of each rank"):
        rota.merge_states(parts[:2])
    other = loader(100, 5, workers=0)
    other.load_state_dict(rota.merge_states(parts[::-1]))
    batches = [other.next(), other.next()]
    assert [batch.is_again for batch in batches] == [True, True]
    assert sorted(ids_of(batches[0]) + ids_of(batches[1])) == sorted(id for rank in names for id, _ in names[rank][1:])
    assert other.next().start.consumed == 9


def test_what_is_dropped_is_listed_and_goes_with_the_state():
    made = sampler(30, 10)
    batch = next(iter(made))
    made.drop(batch[:3], reason="stale")
    made.drop(batch[3], reason="failed")
    assert made.dropped == {"failed": 1, "stale": 3}
    assert {(one.id, one.error) for one in made.dropped_samples} == {(int(i), "stale") for i in batch[:3]} | {
        (int(batch[3]), "failed")
    }
    other = sampler(30, 10)
    other.load_state_dict(made.state_dict())
    assert other.dropped == made.dropped
    trained = [int(index) for batch in other for index in batch if not index.is_pad]
    assert sorted(trained + [int(i) for i in batch[:4]]) == list(range(30))


@pytest.mark.parametrize("make", [sampler, loader])
def test_a_checkpoint_lists_what_is_dropped(make, tmp_path):
    made = make(30, 10)
    batch = next(iter(made))
    made.drop(batch, reason="stale")
    with rota.CheckpointDirectory(None, tmp_path) as checkpoints:
        checkpoints.save(1, made)
        other = make(30, 10)
        checkpoints.restore(other)
    assert other.dropped == {"stale": 10}
    assert other.dropped_samples == made.dropped_samples and len(other.dropped_samples) == 10
    other.load_state_dict(made.state_dict())
    assert other.dropped == {"stale": 10} and other.dropped_samples == []


def test_try_settle_counts_who_comes_back_after_a_restart():
    made = sampler(30, 10, shuffle="none")
    next(iter(made))
    other = sampler(30, 10, shuffle="none")
    made.settle(0, 0)
    other.load_state_dict(made.state_dict())
    assert other.try_settle([0, 1, 1, 25], 0) == [False, True, False, False]
    come = [int(index) for index in next(iter(other)) if not index.is_pad]
    assert come == [*range(2, 10)]


def test_what_is_open_comes_whatever_set_epoch_says():
    made = sampler(20, 5, epochs=None, tail="partial")
    made.set_epoch(0)
    batches = list(made)
    for batch in batches[1:]:
        made.settle(batch)
    state = made.state_dict()
    for epoch, new in (0, 0), (1, 20), (3, 20):
        other = sampler(20, 5, epochs=None, tail="partial")
        other.load_state_dict(state)
        other.set_epoch(epoch)
        come = list(other)
        assert sorted(come[0]) == sorted(batches[0])
        assert sum(map(len, come[1:])) == new
        assert {index.epoch for batch in come[1:] for index in batch} == ({epoch} if new else set())


def test_a_sampler_is_not_copied_while_samples_are_out():
    made = sampler(20, 5)
    batch = next(iter(made))
    with pytest.raises(ValueError, match="5 samples are out"):
        pickle.dumps(made)
    made.again(batch[:2])
    made.settle(batch[2:])
    copy = pickle.loads(pickle.dumps(made))
    assert sorted(int(i) for i in next(iter(copy)) if not i.is_pad) == sorted(map(int, batch[:2]))


# ---- with torch ----


def test_torchs_own_loader_is_right_with_the_samplers_state():
    torch = pytest.importorskip("torch")
    data = list(range(64))
    made = sampler(64, 8, seed=5, tail="partial")
    trained = []
    for step, batch in enumerate(torch.utils.data.DataLoader(data, batch_sampler=made, num_workers=2)):
        names = batch.tolist()
        made.settle(names, 0)
        trained += names
        if step == 2:
            state = made.state_dict()
            break
    other = sampler(64, 16, seed=5, tail="partial")
    other.load_state_dict(state)
    for batch in torch.utils.data.DataLoader(data, batch_sampler=other):
        trained += batch.tolist()
    assert sorted(trained) == data


def test_rotas_loader_gives_up_what_a_for_left():
    pytest.importorskip("torch")
    import rota.torch

    made = sampler(64, 8, seed=5)
    over = rota.torch.DataLoader(list(range(64)), made, num_workers=2)
    trained = []
    for batch in over:
        made.settle(over.info)
        trained += batch.tolist()
        if len(trained) >= 24:
            break
    assert made.open.out == 0
    for batch in over:
        made.settle(over.info)
        trained += batch.tolist()
    assert sorted(trained) == list(range(64))


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 3])
def test_a_loop_over_to_device_has_steps_and_states_as_without_settle(size, ahead):
    pytest.importorskip("torch")
    import rota.torch

    def ranks(**options):
        return [loader(100, 9, world=(rank, size), epochs=2, **options) for rank in range(size)]

    plain, state = ranks(settle="at_delivery"), None
    while plain[0].position.step < 23:  # each time by new loaders, of which the old ones were killed
        made = ranks()
        for one in made if state else ():
            one.load_state_dict(state)
        runs = [rota.torch.to_device(one, "meta", ahead) for one in made]
        for batches in [*itertools.islice(zip(*runs), 3), *itertools.islice(zip(*runs), 2)]:  # a `for` is left early
            assert [tensors.batch.ids.tolist() for tensors in batches] == [one.next().ids.tolist() for one in plain]
        state = rota.merge_states([one.state_dict() for one in made])
        assert state == plain[0].state_dict() == rota.merge_states([run.state_dict() for run in runs])


def test_what_to_device_has_staged_is_given_up_with_it():
    pytest.importorskip("torch")
    import rota.torch

    made, plain = loader(open_limit=20, deadline=1.0), loader(settle="at_delivery")
    trained = []
    for tensors in rota.torch.to_device(made, "meta", ahead=5):  # not all of them find room
        trained += ids_of(tensors.batch)
        assert ids_of(plain.next()) == ids_of(tensors.batch) and made.state_dict() == plain.state_dict()
        if len(trained) == 50:
            break
    assert made.open.out == 0 and made.open.to_come == 10 and made.state_dict() == plain.state_dict()
    trained += [id for tensors in rota.torch.to_device(made, "meta") for id in ids_of(tensors.batch)]
    assert sorted(trained) == list(range(100))


def test_a_torch_loader_has_the_contract_of_a_stateful_one():
    torch = pytest.importorskip("torch")
    import rota.torch

    def made():
        own = sampler(64, 8, seed=5, epochs=2)
        return own, rota.torch.DataLoader(Named(), own, num_workers=1)

    class Named(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return {"id": int(index), "epoch": index.epoch}

    (own, over), pool, trained = made(), [], []
    for _ in range(3):
        for batch in over:
            pool.append(batch)
            if len(pool) == 3:  # of which the oldest is trained
                own.settle(pool[0]["id"], pool[0]["epoch"])
                trained += zip(pool[0]["id"].tolist(), pool.pop(0)["epoch"].tolist())
            if len(trained) == 40:
                break
        state = over.state_dict()
        (own, over), pool = made(), []
        over.load_state_dict(state)
    for batch in over:
        own.settle(batch["id"], batch["epoch"])
        trained += zip(batch["id"].tolist(), batch["epoch"].tolist())
    assert sorted(trained) == [(id, epoch) for id in range(64) for epoch in range(2)]
