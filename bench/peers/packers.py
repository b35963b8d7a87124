"""Packers beside each other: documents of log-normal lengths, in sequences of 2,048 tokens.

    ./run bench peers packers

How full they are, which tokens are lost, which documents are cut that need not be, and how long it takes. Then 4 ranks stop in the
middle, and 3 go on from what they saved. Each token is the number of its document, so sequences alone tell."""

import atexit
import importlib.metadata
import json
import shutil
import struct
import sys
import tempfile
import time
from functools import cached_property, partial, reduce
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np

LENGTH, MEDIAN, SIGMA, LONGEST, BATCH = 2048, 665, 1.0, 8192, 24
MILLION, MANY, FEW = 1_000_000, 100_000, 10_000  # documents: of which times are told; of most; where time is long, or ranks stop
HEADS = ["full", "tokens lost", "cut, and not longer", "10^6 documents: first / all sequences", "3 ranks after 4: lost / repeated"]
PINS = ["datasets==4.7.0", "grain==0.2.18", "numpy==2.1.3", "torch==2.13.0", "torchdata==0.11.0", "trl==1.16.0", "tyro==1.0.17"]
ALONE = ["megatron-bridge==0.3.1", "spmd_types==0.2.3", "torchtitan==0.3.0"]  # without most of what these ask for: of each a part runs


class Documents:
    def __init__(self, count):
        self.lengths = np.minimum(np.ceil(np.random.default_rng(1).lognormal(np.log(MEDIAN), SIGMA, count)), LONGEST).astype(np.int64)
        self.ends = np.cumsum(self.lengths)
        self.tokens = np.repeat(np.arange(1, count + 1, dtype=np.int32), self.lengths)
        self.directory = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, self.directory)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        return self.tokens[self.ends[i] - self.lengths[i] : self.ends[i]]

    @cached_property
    def rows(self):
        import datasets
        import pyarrow as pa
        tokens = pa.ListArray.from_arrays(np.append(0, self.ends).astype(np.int32), self.tokens)
        datasets.Dataset(pa.table({"input_ids": tokens})).save_to_disk(f"{self.directory}/rows")
        return datasets.load_from_disk(f"{self.directory}/rows")

    @cached_property
    def pieces(self):
        """Those that are longer than a sequence in pieces, for packers that take none."""
        return [one[k : k + LENGTH] for one in self for k in range(0, len(one), LENGTH)]

    @cached_property
    def megatron(self):
        self.tokens.tofile(f"{self.directory}/documents.bin")
        with open(f"{self.directory}/documents.idx", "wb") as index:
            index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(self), len(self) + 1))
            for part in (self.lengths.astype("<i4"), 4 * (self.ends - self.lengths), np.arange(len(self) + 1)):
                part.tofile(index)
        return self.directory


class Rota:
    def __init__(self, documents, rank, ranks, fit):
        import rota
        packed = rota.pack(rota.open(documents.megatron, "megatron"), LENGTH, fit=fit)
        self.loader = rota.Loader(packed, BATCH, world=(rank, ranks), workers=1, tail="pad", epochs=1)

    def __iter__(self):
        return (tokens for batch in self.loader for tokens in np.array(batch["tokens"][batch.mask]))

    def state(self):
        return self.loader.state_dict()

    def restore(self, states, rank):
        self.loader.load_state_dict(states[0])


class Trl:
    """Its Trainer skips batches of the packed dataset, as it does of any."""

    def __init__(self, documents, rank, ranks, strategy):
        from trl.data_utils import pack_dataset
        self.rows = pack_dataset(documents.rows, LENGTH, strategy).with_format("numpy")

    def __iter__(self):
        return (row["input_ids"] for row in self.rows)


class Grain:
    def __init__(self, documents, rank, ranks, packer, **options):
        import grain
        source = grain.MapDataset.source(documents.pieces if options else documents).shuffle(seed=1)[rank::ranks]
        rows = source.map(lambda row: {"tokens": row}).to_iter_dataset(grain.ReadOptions(0, 0))  # documents are in memory
        self.packed = iter(getattr(grain.experimental, packer)(rows, length_struct={"tokens": LENGTH}, **options))

    def __iter__(self):
        return (one["tokens"] for one in self.packed)

    def state(self):
        return self.packed.get_state()

    def restore(self, states, rank):
        self.packed.set_state(states[rank])


class Torchtitan:
    """Its stream of text, in its loader. Of each document the last token is a label only, so here each has one more."""

    def __init__(self, documents, rank, ranks):
        from torchtitan.components.dataloader import ParallelAwareDataloader
        self.loader = ParallelAwareDataloader(self.stream(documents, rank, ranks), rank, ranks, batch_size=1)

    def stream(self, documents, rank, ranks):
        from torchtitan.hf_datasets import DatasetConfig, text_datasets
        text_datasets.DATASETS["documents"] = DatasetConfig("none", lambda path: documents.rows, lambda row: row["input_ids"])
        tokenizer = SimpleNamespace(encode=lambda tokens, **_: tokens + [0])
        return text_datasets.HuggingFaceTextDataset("documents", None, tokenizer, LENGTH, rank, ranks)

    def __iter__(self):
        return (inputs["input"][0].numpy() for inputs, _ in self.loader)

    def state(self):
        return self.loader.state_dict()

    def restore(self, states, rank):
        self.loader.load_state_dict(reduce(dict.__or__, states))


class Bridge:
    """What lays lengths, alone, in a time by their square. The dataset before it cuts off what is longer."""

    def __init__(self, documents, rank, ranks):
        file = importlib.metadata.distribution("megatron-bridge").locate_file("megatron/bridge/data/datasets/packing_utils.py")
        exec(file.read_text(), utils := {"__name__": "packing_utils"})  # its package asks for CUDA
        kept, self.of_length = np.minimum(documents.lengths, LENGTH), {}
        for document, length in enumerate(kept.tolist(), 1):
            self.of_length.setdefault(length, []).append(document)
        self.plan, _ = utils["create_packing_strategy"](np.bincount(kept, minlength=LENGTH + 1).tolist(), LENGTH, "first_fit_decreasing")

    def __iter__(self):
        return (np.repeat([self.of_length[length].pop() for length in lengths], lengths) for lengths in self.plan)


PACKERS = {
    "rota.pack, best": partial(Rota, fit="best"),
    "rota.pack, concat": partial(Rota, fit="concat"),
    "TRL, bfd": partial(Trl, strategy="bfd"),
    "TRL, bfd_split": partial(Trl, strategy="bfd_split"),
    "TRL, wrapped": partial(Trl, strategy="wrapped"),
    "Grain, FirstFit, 64 bins": partial(Grain, packer="FirstFitPackIterDataset", num_packing_bins=64),
    "Grain, FirstFit, 1,024 bins": partial(Grain, packer="FirstFitPackIterDataset", num_packing_bins=1024),
    "Grain, ConcatThenSplit": partial(Grain, packer="ConcatThenSplitIterDataset"),
    "torchtitan, text": partial(Torchtitan),
    "Megatron-Bridge, first_fit_decreasing": partial(Bridge),
}
STREAMS = (Grain, Torchtitan)  # whose first sequence waits for few documents


def count(documents, sequences):
    """Of each document: its tokens in the sequences, and how many of these it is in."""
    tokens, parts = np.zeros((2, len(documents) + 1), np.int64)
    for sequence in sequences:
        ids, counts = np.unique(sequence[sequence > 0], return_counts=True)
        tokens[ids] += counts
        parts[ids] += 1
    return tokens[1:], parts[1:]


def pack(documents, packer):
    """The facts of one epoch of one rank."""
    count(warm := Documents(100), packer(warm, 0, 1))  # whatever is imported
    begin = time.perf_counter()
    sequences = iter(packer(documents, 0, 1))
    kept = [next(sequences)]
    first = time.perf_counter() - begin
    kept += sequences
    facts = dict(documents=len(documents), tokens=documents.tokens.size, first=first, all=time.perf_counter() - begin)
    tokens, parts = count(documents, kept)
    assert (tokens <= documents.lengths).all(), "a token is repeated"
    lost, cut = (documents.lengths - tokens).sum(), (parts[documents.lengths <= LENGTH] > 1).sum()
    return facts | dict(fill=int(tokens.sum()) / (len(kept) * LENGTH), lost=int(lost), cut=int(cut))


def resume(documents, packer):
    """4 ranks stop in the middle, 3 go on. How many documents have tokens that no rank was given, and how many have some twice."""
    if not hasattr(packer.func, "restore"):
        return {}
    steps = documents.tokens.size // LENGTH // 2 // BATCH * BATCH // 4  # sequences of each rank
    given, states = [], []
    for rank in range(4):
        begun = packer(documents, rank, 4)
        given += islice(begun, steps)
        states.append(begun.state())
    try:
        for rank in range(3):
            (then := packer(documents, rank, 3)).restore(states, rank)
            given += then
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    tokens, _ = count(documents, given)
    return dict(lost=int((tokens < documents.lengths).sum()), repeated=int((tokens > documents.lengths).sum()))


def cells(name, facts):
    scale = (MILLION / facts["documents"]) ** (2 if PACKERS[name].func is Bridge else 1)
    seconds = [facts["first"] * (1 if PACKERS[name].func in STREAMS else scale), facts["all"] * scale]
    times = " / ".join(f"{one / 3600:.0f} h" if one > 7200 else f"{one:.{int(one < 10)}f} s" for one in seconds)
    resumed, shares = facts["resumed"], (facts["fill"], facts["lost"] / facts["tokens"], facts["cut"] / facts["documents"])
    after = f"{resumed['lost']:,} / {resumed['repeated']:,}" if "lost" in resumed else "refused" if resumed else "of its sampler"
    return [name, *(f"{100 * share:.{digits}f} %" for share, digits in zip(shares, (2, 1, 1))), times, after]


def main(file, *names):
    many, few = Documents(MANY), Documents(FEW)
    many.rows, many.pieces, many.megatron  # which no time counts
    found = {}
    for name in names:
        packer = PACKERS[name]
        found[name] = pack(few if packer.func is Bridge else many, packer) | {"resumed": resume(few, packer)}
    Path(file).write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "rows": found}, indent=1))


if __name__ == "__main__":  # by the environment of all
    main(*sys.argv[1:])
