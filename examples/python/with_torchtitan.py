"""torchtitan 0.3.0: torchrun --nproc_per_node=4 with_torchtitan.py DOCUMENTS DIRECTORY; killed, and started again with any number
of ranks that divides the global batch with whatever accumulation.

DOCUMENTS is what `rota.open` reads, with one ragged field of tokens: Megatron's files, for example. Sequences are packed of whole
documents, each is trained once an epoch, and ranks have as much attention to compute.
"""

import functools
import itertools
import sys
from dataclasses import dataclass

import rota
import torch
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import IGNORE_INDEX
from torchtitan.components.validate import Validator
from torchtitan.config import TrainingConfig
from torchtitan.models.llama3.config_registry import llama3_debugmodel


@functools.cache  # a validator makes its loader anew each time
def packed(path, length, eos):
    """One token more than the model takes, for the labels are the next ones."""
    sequences = rota.pack(rota.open(path), length + 1, eos=eos, fit="best", seed=1)
    return sequences, rota.squares_of(sequences)


class RotaLoader(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        documents: str = ""
        global_batch_size: int = 64
        """Sequences of a step, of all ranks and accumulations: that of `training`."""

        epochs: int = 1
        infinite: bool = False
        """Epochs without end, in place of `epochs`. A validator sets it, where it has a number of steps."""

    def __init__(self, config, *, dp_world_size, dp_rank, local_batch_size, seq_len, tokenizer, **_):
        parts, rest = divmod(config.global_batch_size, dp_world_size * local_batch_size)
        if rest:
            raise ValueError(f"{config.global_batch_size} sequences for {dp_world_size} ranks of {local_batch_size} at a time")
        sequences, squares = packed(config.documents, seq_len, tokenizer.eos_id)
        self.loader = rota.Loader(
            sequences, config.global_batch_size, seed=1, epochs=None if config.infinite else config.epochs, tail="pad",
            rank_split="balanced", balance=rota.Balance(squares, micro_batches=parts), world=(dp_rank, dp_world_size))  # fmt: skip

    def __iter__(self):
        for batch in self.loader:
            tokens, documents, positions = (
                torch.as_tensor(batch[name]).long() for name in ("tokens", "segment_ids", "position_ids")
            )
            is_next = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] > 0) & torch.as_tensor(batch.mask)[:, None]
            labels = tokens[:, 1:].masked_fill(~is_next, IGNORE_INDEX)  # none behind a document, and none of what pads
            for begin, end in itertools.pairwise([0, *batch.micro_ends]):
                yield {"input": tokens[begin:end, :-1], "positions": positions[begin:end, :-1]}, labels[begin:end]

    def state_dict(self):
        return self.loader.state_dict()  # the same on all ranks, and for any number of them

    def load_state_dict(self, state):
        if state:
            self.loader.load_state_dict(state)


def config_of(documents, directory, local_batch_size=1, global_batch_size=12):
    config = llama3_debugmodel()
    config.dump_folder = directory
    config.training = TrainingConfig(local_batch_size=local_batch_size, global_batch_size=global_batch_size, seq_len=256, steps=10_000)
    config.dataloader = RotaLoader.Config(documents=documents, global_batch_size=global_batch_size, epochs=2)
    config.checkpoint = CheckpointManager.Config(enable=True, interval=4, last_save_model_only=False)
    validated = RotaLoader.Config(documents=documents, global_batch_size=global_batch_size)
    config.validator = Validator.Config(enable=True, freq=10, steps=-1, dataloader=validated)
    return config


if __name__ == "__main__":
    trainer = config_of(*sys.argv[1:]).build()
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()
