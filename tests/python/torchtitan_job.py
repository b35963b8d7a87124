"""examples/python/with_torchtitan.py under torchrun, where there is no accelerator: torchtitan_job.py LOG KILL DOCUMENTS DIRECTORY ROWS

The whole Trainer runs, on gloo, with a model of two layers. Replaced is what only an accelerator has: kernels, flexible attention,
the size of its memory; what a newer PyTorch has, of timeouts and meshes; and the tokenizer, of which only `eos_id` is asked.

Each rank writes to LOG.<rank>, in lines of JSON, what the model is given, losses, and what validation has read.
KILL "2:7" ends rank 2 as it is given its seventh batch.
"""

import dataclasses
import json
import os
import signal
import sys
from unittest import mock

for name in "torchtitan.distributed.minimal_async_ep.kernels", "torch.utils.tensorboard":
    sys.modules[name] = mock.MagicMock()
import rota  # noqa: E402
import torch  # noqa: E402
import torch_jobs  # noqa: E402

with mock.patch("torch._utils._get_available_device_type", lambda: "cpu"):
    import torchtitan.distributed.utils
    from torchtitan.components import metrics
    from torchtitan.components.tokenizer import BaseTokenizer
    from torchtitan.models.common.attention import ScaledDotProductAttention
torchtitan.distributed.utils.set_pg_timeouts = mock.MagicMock()
torch.cpu.current_device = lambda: 0
memory = metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)
metrics.build_device_memory_monitor = lambda: mock.MagicMock(device_name="cpu", get_peak_stats=lambda: memory)

log, kill, documents, directory, rows = sys.argv[1:]
rank = os.environ["RANK"]
out = open(f"{log}.{rank}", "w")


def tell(**line):
    print(json.dumps(line), file=out, flush=True)


class Tokens(BaseTokenizer):
    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    encode = decode = get_vocab_size = None

    def __init__(self, config, **_):
        super().__init__()
        self.eos_id = 1


class Loader(rota.Loader):
    """One that tells. The first is the one that trains."""

    made = 0

    def __iter__(self):
        trains = Loader.made == 0
        Loader.made += 1
        for number, batch in enumerate(super().__iter__()):
            if trains and kill == f"{rank}:{number}":
                os.kill(os.getpid(), signal.SIGKILL)
            if not trains:
                tell(kind="valid", number=Loader.made, ids=batch.ids[batch.mask].tolist())
            yield batch


example = torch_jobs.example("with_torchtitan")
rota.Loader = Loader
config = example.config_of(documents, directory, int(rows))
config.tokenizer = Tokens.Config()
model = config.model_spec.model
del model.layers[2:]
for layer in model.layers:
    layer.attention.inner_attention = ScaledDotProductAttention.Config()
config.training.disable_cuda_graphs = True
config.training.seq_len, config.training.mixed_precision_param = 64, "float32"
config.debug.seed = 1
config.parallelism.spmd_backend = "partial_dtensor"
trainer = config.build()
for module in trainer.model_parts[0].modules():
    if hasattr(module, "set_force_sum_reduction_for_comms"):
        module.set_force_sum_reduction_for_comms(True)  # gloo has no other
trained = trainer.forward_backward_step


def forward_backward_step(*, input_dict, labels, global_valid_tokens):
    """What the model is given."""
    tell(kind="part", inputs=input_dict["input"].tolist(), positions=input_dict["positions"].tolist(), labels=labels.tolist())
    return trained(input_dict=input_dict, labels=labels, global_valid_tokens=global_valid_tokens)


trainer.forward_backward_step = forward_backward_step
trainer.metrics_processor.log = lambda step, loss, *_, **__: tell(kind="step", step=step, loss=loss)
trainer.metrics_processor.log_validation = lambda loss, step: tell(kind="validated", step=step, loss=loss)
trainer.train()
trainer.close()
torch.distributed.destroy_process_group()
