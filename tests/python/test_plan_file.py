"""Plans in files, which saves read anew: `replan="at_save"`."""

import json
import logging
import pickle

import pytest
import rota
from runs import loader, next_of, refused
from test_stages import told
from torch_jobs import Job


def stages(*pairs):
    return json.dumps({"stages": [{"steps": step, "global_batch_size": size} for step, size in pairs]})


def sizes(run, steps=20):
    return [run.at(step).global_batch_size for step in range(steps)]


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(stages((2, 6)))
    return path


@pytest.fixture
def directory(tmp_path):
    with rota.CheckpointDirectory(None, tmp_path / "checkpoints") as directory:
        yield directory


def warnings(caplog):
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return said


@pytest.mark.parametrize("kind", ["loader", "sampler"])
@pytest.mark.parametrize("save", ["save", "save_async"])
def test_a_save_has_the_plan_of_before_and_the_run_goes_on_by_the_file(plan, directory, kind, save):
    def make(**options):
        if kind == "loader":
            return loader(400, 4, **options)
        return rota.ElasticBatchSampler(400, 4, epochs=1, tail="partial", world=(0, 1), **options)

    one = make(plan=plan, replan="at_save")
    for _ in range(3):
        next_of(one)
    plan.write_text(stages((2, 6), (4, 10)))
    getattr(directory, save)(3, {"main": one, "other": b""})
    directory.wait()
    assert sizes(one.run)[2:6] == [6, 6, 10, 10] and json.loads(one.run.plan) == json.loads(rota.Run(9, plan=plan).plan)
    before, after = make(), make()
    directory.restore(before)
    assert sizes(before.run) == [4, 4] + [6] * 18 and before.position == one.position
    after.load_state_dict(one.state_dict())
    assert told(iter(lambda: next_of(after), None)) == told(iter(lambda: next_of(one), None))


def test_what_is_wrong_is_told_once_and_costs_no_save(plan, directory, caplog):
    one = loader(400, 4, plan=plan, replan="at_save")
    batches = iter(one)
    for _ in range(3):
        next(batches)
    by_hand = loader(400, 4, plan=plan)
    expected = sizes(one.run)
    for text, words in (
        (stages((1, 6)), "step 1 is past"), (stages((2, 6))[:-9], "plan.json: .*no JSON"), (None, "no such file"),
        ("{}", "past"), (json.dumps({"stages": [{"steps": 9, "weights": [1]}]}), "weights"), ('{"stages": [{"step": 9}]}', "step"),
    ):  # fmt: skip
        plan.write_text(text) if text else plan.unlink()
        for save in directory.save, directory.save_async:
            save(3, one, {"valid": by_hand})
        directory.wait()
        (said,) = warnings(caplog)
        assert "; the run goes on by the plan that it had" in said and plan.name in said and refused(lambda: one.replan(plan), rota.Error, words)
        assert sizes(one.run) == sizes(by_hand.run) == expected
    assert len(directory.list()) == 2 and directory.latest().info.step == 3
    for text, steps in (stages((2, 6), (3, 7)), 7), (stages((2, 6)), 6):  # a later save tries again
        plan.write_text(text)
        directory.save(3, one)
        assert sizes(one.run)[3] == steps and not warnings(caplog)
    assert len(next(batches)["n"]) == 6
    plan.write_text("{")
    directory.save(3, one)
    assert warnings(caplog)


def test_a_file_that_stays_as_it_is_moves_nothing(plan, directory):
    one = loader(400, 4, plan=plan, replan="at_save", read_ahead_batches=4)
    one.next()
    one.replan = None  # is not called
    directory.save(1, one)
    sampler = rota.ElasticBatchSampler(400, 4, plan=plan, replan="at_save", world=(0, 1))
    draws = iter(sampler)
    plan.write_text(" " + plan.read_text())
    for _ in range(3):
        assert [*map(int, next(draws))] == sampler.advance().ids.tolist()
        directory.save(1, sampler)
    plan.write_text(stages((2, 6), (9, 2)))
    directory.save(2, sampler)
    refused(lambda: next(draws), ValueError, "begin a new `for`")
    assert [*map(int, next(iter(sampler)))] == sampler.advance().ids.tolist()
    assert pickle.loads(pickle.dumps(sampler)).run == sampler.run


def test_all_parts_of_a_batch_go_by_one_plan(plan, directory, caplog):
    balance = rota.Balance(lengths=range(1, 121), micro_batches=3)
    sampler = rota.ElasticBatchSampler(120, 12, plan=plan, replan="at_save", balance=balance, rank_split="balanced", epochs=1, tail="partial", world=(0, 1))
    seen, third = [], []
    plan.write_text(stages((2, 6), (3, 9)))
    while (info := sampler.advance()) is not None:
        seen += info.ids.tolist()
        directory.save(sampler.position.step, sampler)
        third.append(sampler.run.at(3).global_batch_size)
        if len(third) == 4:
            plan.write_text(stages((1, 5)))
    assert third[:3] == [6, 6, 9] and set(third[3:]) == {9}
    assert sorted(seen) == [*range(120)] and len(warnings(caplog)) == 1


def test_what_cannot_work_is_refused(plan, directory):
    for make in lambda **options: loader(40, 4, **options), lambda **options: rota.ElasticBatchSampler(40, 4, world=(0, 1), **options):
        refused(lambda make=make: make(plan=plan, replan="always"), ValueError, '"by_hand" or "at_save"')
        refused(lambda make=make: make(plan={"skip": [[1, 2]]}, replan="at_save"), ValueError, "its path")
        refused(lambda make=make: make(plan='{"skip": [[1, 2]]}', replan="at_save"), ValueError, "its path")
        one = make(plan=plan, replan="at_save")
        one.replan(one.run.plan)
        assert one._plan_file._path == plan, "a text is no other file"
    apart = rota.ElasticBatchSampler(40, 4, world=(0, 2), plan=plan, replan="at_save")
    refused(lambda: directory.save(1, apart), ValueError, "it is of 2 ranks, and this directory of 1")
    assert not directory.list()


def test_a_for_over_torchs_loader_goes_on_where_several_plans_came_at_one_step():
    torch = pytest.importorskip("torch")
    sampler = rota.ElasticBatchSampler(60, 6, plan={}, tail="pad", epochs=1, world=(0, 1))
    sizes = []
    for rows in rota.torch.DataLoader(torch.arange(60), sampler, num_workers=1):
        sizes.append(len(rows))
        if len(sizes) == 2:
            sampler.replan({"stages": [{"steps": 2, "global_batch_size": 9}]})
            sampler.replan({"stages": [{"steps": 3, "global_batch_size": 14}]})
    assert sizes == [6, 6, 6, 14, 14, 14]


TRAINS = """
import json, logging
from torch.utils.data import TensorDataset
plan = path + "/plan.json"
def write(*stages):
    if rank == 0:
        with open(plan, "w") as file: file.write(json.dumps({"stages": [{"steps": s, "global_batch_size": b} for s, b in stages]}))
    dist.barrier()
said = []
logging.getLogger("rota").addHandler(type("Said", (logging.Handler,), {"emit": lambda self, record: said.append(record.getMessage())})())
write((3, 12))
sampler = rota.ElasticBatchSampler(120, 6, plan=plan, replan="at_save", tail=TAIL)
batches = rota.torch.DataLoader(TensorDataset(torch.arange(120)), sampler, num_workers=WORKERS, persistent_workers=WORKERS > 1)
directory = rota.CheckpointDirectory(path + "/checkpoints")
seen = []
for epoch in range(2):
    for (rows,) in batches:
        seen.append((batches.info.start.step, rows.tolist()))
        step = batches.info.end.step
        if step == 5:
            write((3, 12), (7, 6))
            directory.save(step, batches)  # two plans between two batches
            write((3, 12), (7, 4))
        if step == 6: write((1, 2))
        if step == LAST: write((3, 12), (7, 4), (LAST, 8))
        directory.save(step, batches)
        if step == LAST: assert epoch == 0 and batches.info.end.epoch == 1, (step, batches.info.end)
assert len([one for one in said if "step 1 is past" in one]) == 1, said
sys.stdout.write(json.dumps(seen))
"""


@pytest.mark.parametrize("workers, ranks, tail", [(0, 1, "pad"), (1, 2, "partial"), (2, 3, "pad")])
def test_a_for_over_torchs_loader_goes_on_by_the_file_on_all_ranks(tmp_path, workers, ranks, tail):
    pytest.importorskip("torch")
    run = rota.Run(120, 6, tail=tail, epochs=2, plan={"stages": [{"steps": s, "global_batch_size": b} for s, b in ((3, 12), (7, 4))]})
    last = next(step for step in range(99) if run[step].end.epoch == 1) + 1  # behind the last one of an epoch
    run.replan({"stages": [{"steps": s, "global_batch_size": b} for s, b in ((3, 12), (7, 4), (last, 8))]})
    expected = [(step, run[step].ids.tolist()) for step in range(len(run))]
    code = f"TAIL, WORKERS, LAST = {tail!r}, {workers}, {last}\n" + TRAINS
    with Job(tmp_path, code, ranks) as job:
        assert job.codes(120) == [0] * ranks, job.texts()
        parts = [json.loads(job.said(rank)) for rank in range(ranks)]
    assert [(step, sum((part[k][1] for part in parts), [])) for k, (step, _) in enumerate(parts[0])] == expected
