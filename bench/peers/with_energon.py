"""Megatron-Energon: crude samples of tar files; the state of each rank, by rank."""

import base
import numpy as np
import with_webdataset
from megatron.energon import Cooker, DefaultTaskEncoder, Sample, WorkerConfig, basic_sample_keys, edataclass, get_savable_loader, get_train_dataset, stateless
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory

NAME = "Megatron-Energon"
ENVIRONMENT = "energon"


def write(directory, kind):
    with_webdataset.write(directory, kind, packed=".tar")  # it reads no other
    BaseWebdatasetFactory.prepare_dataset(directory, [path.name for path in sorted(directory.glob("*.tar"))], split_parts_ratio=[("train", 1.0)], workers=1)
    (directory / ".nv-meta" / "dataset.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")


@edataclass
class Row(Sample):
    data: np.ndarray


@stateless
def cook(sample):
    return Row(**basic_sample_keys(sample), data=base.array(sample["data"]))


class Encoder(DefaultTaskEncoder):
    decoder = None
    cookers = [Cooker(cook)]


class Run(base.Run):
    def __init__(self, place, states):
        config = WorkerConfig(rank=place.rank, world_size=place.ranks, num_workers=place.workers)
        options = dict(batch_size=place.own, shuffle_buffer_size=100, max_samples_per_sequence=None, repeat=False, task_encoder=Encoder())
        self.loader = get_savable_loader(get_train_dataset(place.data, worker_config=config, **options), checkpoint_every_sec=1, checkpoint_every_min_n_samples=1)
        if states:
            self.loader.restore_state_rank(states[place.rank % len(states)])

    def ids(self, batch):
        return [int(key.rpartition("/")[2]) for key in batch.__key__]

    def state(self):
        return self.loader.save_state_rank()
