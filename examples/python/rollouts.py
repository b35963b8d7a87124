"""Rollouts at their own pace: of 16 workers some fail, and some are too late. Killed, and started again, it trains each prompt once.

    python3 rollouts.py prompts.jsonl run.json
"""

import asyncio
import json
import os
import random
import sys

import rota


async def rollout(prompt):
    """Stands for a call of your server: the rewards of four answers; None where it failed."""
    await asyncio.sleep(random.lognormvariate(-5, 1))
    return None if random.random() < 0.05 else [random.randrange(2) for _ in range(4)]


async def feed(loader, todo):
    """Hands out what is new, and what was given up, until nothing is open."""
    while True:
        batch = await asyncio.to_thread(loader.next)  # which may wait for room
        if batch is not None:
            for id, epoch, text, counts in zip(batch.ids.tolist(), batch.epochs.tolist(), batch["text"], batch.mask):
                if counts:
                    todo.put_nowait((id, epoch, json.loads(bytes(text))["prompt"]))
            continue
        left = loader.open
        if left.out + left.to_come == 0:
            return
        await asyncio.sleep(0.01)  # what is out may be given up, and come again


async def work(loader, todo, run):
    while True:
        id, epoch, prompt = await todo.get()
        begun = len(run["trained"])
        rewards = await rollout(prompt)  # nothing below waits: so what is saved is of one moment
        if rewards is None:
            loader.again(id, epoch)
        elif len(run["trained"]) - begun > 40:
            loader.drop(id, epoch, reason="stale")
        elif len(set(rewards)) == 1:
            loader.drop(id, epoch, reason="equal rewards")
        else:
            run["trained"].append(prompt)  # stands for a step of the model
            loader.settle(id, epoch)
        if random.random() < 0.1:
            save(loader, run)


def save(loader, run):
    with open(sys.argv[2] + ".new", "w") as file:
        json.dump({**run, "loader": loader.state_dict()}, file)  # the model, and what it was trained on
    os.replace(sys.argv[2] + ".new", sys.argv[2])


async def main():
    loader = rota.Loader(rota.open(sys.argv[1]), 32, settle="by_hand", open_limit=64, seed=1)
    run, todo = {"trained": []}, asyncio.Queue()
    if os.path.exists(sys.argv[2]):
        with open(sys.argv[2]) as file:
            run = json.load(file)
        loader.load_state_dict(run.pop("loader"))
    tasks = [asyncio.create_task(one) for one in (feed(loader, todo), *(work(loader, todo, run) for _ in range(16)))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    for task in done:
        task.result()  # raises what one of them has
    save(loader, run)
    print(f"trained {len(run['trained'])}, dropped {sum(loader.dropped.values())}: {loader.dropped}")


if __name__ == "__main__":
    asyncio.run(main())
