"""Options have the same names and defaults in Python's signatures, its stubs and C++, and errors speak Python."""

import inspect
import os
import re
from pathlib import Path

import pytest
import rota
from rota import _options, _rota
from runs import refused, source

# What Python has beside the options of C++; and where a sampler's defaults are torch's.
BESIDE = {
    rota.Loader: {"source", "world", "comm", "cast", "replan"},
    rota.StreamLoader: {"stream", "comm"},
    rota.Catalog: {"path", "comm"},
    rota.Catalog.from_pattern: {"pattern", "options", "comm"},
    rota.CheckpointDirectory: {"comm", "path", "storages"},
    rota.pack: {"documents", "comm"},
    rota.windows: {"rows"},
    rota.write_shards: {"source", "destination"},
    rota.flat_map: {"stream", "make"},
    rota.Mixture: {"sources", "weights"},
    rota.Dispatch: {"stream"},
    rota.LengthColumn: {"lengths"},
    rota.Balance: {"lengths", "linear", "quadratic"},
}
TABLES = dict(zip(BESIDE, (
    _rota.LoaderOptions, _rota.StreamLoaderOptions, _rota.CatalogOptions, _rota.PatternOptions, _rota.CheckpointPolicy,
    _rota.PackOptions, _rota.WindowOptions, _rota.ShardOptions, _rota.FlatMapOptions, _rota.MixtureOptions, _rota.DispatchOptions,
    _rota.LengthColumnOptions, _rota.BalanceOptions,
)))  # fmt: skip
SAMPLER = {"tail": "pad", "epochs": None}


def defaults(function, beside=()):
    """Of a signature; what it has to be given is inspect.Parameter.empty."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in {"self", "cls", *beside}}


@pytest.mark.parametrize("function", BESIDE, ids=lambda function: function.__qualname__)
def test_signatures_have_the_names_and_defaults_of_cpp(function):
    of_cpp = TABLES[function].defaults()
    if function in (rota.LengthColumn, rota.Balance):
        assert of_cpp.pop("lengths" if function is rota.LengthColumn else "columns") is None
    assert defaults(function, BESIDE[function]) == of_cpp


def test_a_sampler_has_those_of_a_loader():
    of_cpp = _rota.LoaderOptions.defaults() | _rota.MixtureOptions.defaults() | SAMPLER
    for name, value in defaults(rota.ElasticBatchSampler, {"dataset", "global_batch_size", "world", "weights", "fingerprint", "replan"}).items():
        assert of_cpp[name] == value, name


def test_the_table_of_a_loaders_options_in_the_docs_is_whole():
    text = (Path(os.environ["ROTA_ROOT"]) / "docs/train.md").read_text()
    rows = text[text.index("| `LoaderOptions` | default |") :].split("\n\n")[0].splitlines()[2:]
    of_bad_samples = {"on_bad_sample", "max_skipped", "io_retries", "retry_wait"}
    of_cpp = set(_rota.LoaderOptions.defaults()) - of_bad_samples - {"transform_fields", "collate_fields"}
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])} == of_cpp | {"bad_samples", "on_slow"}


def test_the_lists_of_formats_in_the_docs_are_whole_and_open_names_the_options_of_each():
    rows = dict(re.findall(r"^(\w+) {2,}(\S.*)$", inspect.getdoc(rota.open), re.M))
    assert list(rows) == rota.formats()[1:]
    for format, options in _rota.format_options().items():
        assert set(options) <= set(re.findall(r"`(\w+)`", rows[format])), format
    text = (Path(os.environ["ROTA_ROOT"]) / "docs/open.md").read_text()
    table = text[text.index("| format | a sample is |") :].split("\n\n")[0].splitlines()[2:]
    assert {name for row in table for name in re.findall(r"`(\w+)`", row.split("|")[1])} == set(rota.formats()[1:])


@pytest.mark.parametrize("name", _options.WORDS)
def test_an_option_of_torchs_is_refused_with_rotas_word(name):
    made = [lambda **options: rota.Loader(source(8), 4, **options), lambda **options: rota.ElasticBatchSampler(8, 4, **options)]
    for make in (*made, lambda **options: rota.StreamLoader(rota.as_stream(source(8), 2), 4, **options)):
        refused(lambda: make(**{name: 1}), TypeError, f"no option {name}; rota's option is ")


def literals(path):
    """The texts of a file of C++, each with those that follow it directly."""
    code = re.sub(r"^\s*(//|#include).*$|\s// .*$", "", path.read_text(), flags=re.M)
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)


def test_no_message_has_a_name_of_cpp():
    root = Path(os.environ["ROTA_ROOT"])
    for path in (path for folder in ("src", "checkpoint", "python/src") for path in (root / folder).rglob("*.[ch]pp")):
        for text in literals(path):
            assert not re.search(r"\b[A-Za-z]\w*::\w", text), f"{path}: {text}"
