"""What docs/settle.md shows, and examples/python/rollouts.py."""

import collections
import json
import multiprocessing
import os
import queue
import random
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from test_settle import ids_of, loader, sampler


def recipes(**names):
    """The functions that the page shows, which call these."""
    text = Path(os.environ["ROTA_ROOT"], "docs/settle.md").read_text()
    code = "\n".join(block for block in re.findall(r"```python\n(.*?)```", text, re.S) if re.match("(async )?def ", block))
    exec(compile("from __future__ import annotations\n" + code, "settle.md", "exec"), names)
    return types.SimpleNamespace(**names)


def test_threads_and_processes_of_the_page_train_what_they_got():
    trained = []
    page = recipes(rollout=lambda prompt: prompt, train=trained.append)
    made = loader(40, 10, workers=0)
    names = [(id, 0, id) for _ in range(4) for id in ids_of(made.next())]
    todo, lock = queue.Queue(), threading.Lock()
    for item in names[:20] + 2 * [None]:
        todo.put(item)
    threads = [threading.Thread(target=page.consume, args=(made, todo, lock)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fork = multiprocessing.get_context("fork")
    todo, done = fork.SimpleQueue(), fork.SimpleQueue()
    for item in names[20:] + [None]:
        todo.put(item)
    other = fork.Process(target=page.consume_elsewhere, args=(todo, done))
    other.start()
    for id, epoch, answer in (done.get() for _ in range(20)):
        trained.append(answer)
        made.settle(id, epoch)
    other.join()
    assert sorted(trained) == list(range(40)) and made.open.out == 0


def test_groups_of_the_page_are_settled_whole():
    trained = []
    page, made, groups = recipes(train=trained.append), loader(2, 2), collections.defaultdict(list)
    made.next()
    for count in range(8):
        for id in (0, 1):
            page.answered(made, groups, id, 0, types.SimpleNamespace(reward=id * count))
        assert made.open.out == (0 if count == 7 else 2)
    assert [len(group) for group in trained] == [8] and made.dropped == {"equal rewards": 1}


def test_rows_of_the_page_know_their_names():
    made = sampler(6, 1, seed=2)
    rows = [*recipes().rows([{"prompt": i} for i in range(6)], made)]
    assert sorted((row["prompt"], row["epoch"]) for row in rows) == [(id, 0) for id in range(6)]
    made.settle([row["id"] for row in rows], 0)
    assert made.open.out == 0


@pytest.mark.parametrize("seed", range(2))
def test_the_program_of_the_page_is_killed_and_trains_each_prompt_once(tmp_path, seed):
    pytest.importorskip("numpy")
    chance, saved = random.Random(seed), tmp_path / "run.json"
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"{i}"}) + "\n" for i in range(1000)))
    command = [sys.executable, os.path.join(os.environ["ROTA_EXAMPLES"], "rollouts.py"), tmp_path / "prompts.jsonl", saved]
    for _ in range(3):
        killed = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        before = saved.stat().st_mtime_ns if saved.exists() else 0
        while killed.poll() is None and (not saved.exists() or saved.stat().st_mtime_ns == before):
            time.sleep(0.01)
        time.sleep(chance.random() / 5)
        killed.kill()
        killed.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    trained = json.loads(saved.read_text())["trained"]
    dropped = int(re.search(r"dropped (\d+)", done.stdout)[1])
    assert len({*trained}) == len(trained) and len(trained) + dropped == 1000 and dropped > 0, done.stdout + done.stderr
