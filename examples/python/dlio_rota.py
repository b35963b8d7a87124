"""rota in DLIO, the benchmark of MLPerf Storage, in place of its own loaders: for datasets whose files are one sample each.

    PYTHONPATH=examples/python dlio_benchmark workload=unet3d_h100 ++workload.workflow.checkpoint=False \
        ++workload.reader.data_loader_classname=dlio_rota.Rota ++workload.reader.data_loader_sampler=iterative
"""

from collections.abc import Iterator
from typing import Any

import rota
from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader


class Rota(BaseDataLoader):
    def __init__(self, format_type: Any, dataset_type: Any, epoch: int) -> None:
        super().__init__(format_type, dataset_type, epoch, DataLoaderType.PYTORCH)

    def read(self) -> None:
        trains = self.dataset_type is DatasetType.TRAIN
        self.source = rota.open(self._args.file_list_train if trains else self._args.file_list_eval, "files")

    def next(self) -> Iterator[Any]:
        image = self._args.resized_image  # which DLIO's own loaders hand over, too, for each file that they have read
        loader = rota.Loader(
            self.source,
            self.batch_size * self._args.comm_size,
            world=(self._args.my_rank, self._args.comm_size),
            workers=max(self._args.read_threads, 1),
            seed=self.epoch_number,
            tail="drop",
            transform=lambda sample: {"image": image},
            transform_fields={"image": (image.dtype.name, image.shape)},
        )
        yield from loader
        self.epoch_number += 1

    def finalize(self) -> None:
        pass
