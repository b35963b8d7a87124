"""The Trainer of transformers with rota's loader: its own replay finds the place again, in any world."""

import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import rota  # noqa: E402
import rota.torch  # noqa: E402
import torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
DATA = [{"x": torch.tensor([float(i)])} for i in range(38)]  # nine whole batches an epoch


class Model(torch.nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(1, 1), seen

    def forward(self, x):
        self.seen.append(tuple(map(int, x[:, 0])))
        return {"loss": self.layer(x / 40).square().mean()}


class Trainer(transformers.Trainer):
    def get_train_dataloader(self):
        sampler = rota.ElasticBatchSampler(self.train_dataset, 4, tail="drop", seed=1)
        return rota.torch.DataLoader(self.train_dataset, sampler, collate_fn=self.data_collator)


class Stop(transformers.TrainerCallback):
    def __init__(self, after):
        self.after = after

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.after:
            control.should_save = control.should_training_stop = True


def train(path, after=None, accumulated=1):
    """What one start has trained, and the weights that are left. It goes on from the last checkpoint below `path`."""
    torch.manual_seed(0)
    seen = []
    options = transformers.TrainingArguments(
        str(path), num_train_epochs=3, gradient_accumulation_steps=accumulated, per_device_train_batch_size=4, use_cpu=True,
        save_strategy="no", report_to=[], disable_tqdm=True, learning_rate=0.1, logging_strategy="no",
    )  # fmt: skip
    trainer = Trainer(Model(seen), options, train_dataset=DATA, callbacks=[Stop(after)])
    trainer.train(resume_from_checkpoint=bool(list(path.glob("checkpoint-*"))))
    return seen, trainer.model.layer.weight.item()


@pytest.mark.parametrize("accumulated, chain", [(1, (4,)), (1, (9, 18)), (1, (9, 13, 20)), (2, (2,)), (2, (5, 10)), (2, (5, 7, 12))])
def test_a_run_goes_on_behind_what_it_has_trained(tmp_path, accumulated, chain):
    whole, weight = train(tmp_path / "whole", accumulated=accumulated)
    assert len(whole) == 27
    found = [train(tmp_path / "stopped", after, accumulated) for after in (*chain, None)]
    assert sum((seen for seen, _ in found), []) == whole
    assert found[-1][1] == pytest.approx(weight, abs=1e-7)
