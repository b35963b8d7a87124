"""Megatron-Energon: crude samples of tar files; the state of each rank, by rank."""

import webdataset
from megatron.energon import Cooker, DefaultTaskEncoder, Sample, WorkerConfig, basic_sample_keys, edataclass
from megatron.energon import get_savable_loader, get_train_dataset, stateless
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory

NAME = "Megatron-Energon"
PACKAGES = ["torch", "megatron-energon", "webdataset"]
ENVIRONMENT = "energon"
SHARDS = 40
KIND = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def write(directory, samples, size):
    for shard in range(SHARDS):
        with webdataset.TarWriter(f"{directory}/{shard:03}.tar") as writer:
            for id in range(samples * shard // SHARDS, samples * (shard + 1) // SHARDS):
                writer.write({"__key__": f"{id:09}", "data": bytes(size)})
    shards = [path.name for path in sorted(directory.glob("*.tar"))]
    BaseWebdatasetFactory.prepare_dataset(directory, shards, split_parts_ratio=[("train", 1.0)], workers=1)
    (directory / ".nv-meta" / "dataset.yaml").write_text(KIND)


@edataclass
class Row(Sample):
    data: bytes


@stateless
def cook(sample):
    return Row(**basic_sample_keys(sample), data=sample["data"])


class Encoder(DefaultTaskEncoder):
    decoder = None
    cookers = [Cooker(cook)]


class Run:
    def __init__(self, place, states):
        config = WorkerConfig(rank=place.rank, world_size=place.ranks, num_workers=place.workers)
        own = -(-place.batch // place.ranks)
        dataset = get_train_dataset(
            place.data, worker_config=config, batch_size=own, shuffle_buffer_size=100, max_samples_per_sequence=None, repeat=False,
            task_encoder=Encoder(),
        )  # fmt: skip
        self.loader = get_savable_loader(dataset)
        if states:
            self.loader.restore_state_rank(states[place.rank % len(states)])

    def __iter__(self):
        return iter(self.loader)

    def ids(self, batch):
        return [int(key.rpartition("/")[2]) for key in batch.__key__]

    def state(self):
        return self.loader.save_state_rank()
