"""Windows that each epoch moves, and windows of episodes."""

import pickle

import numpy as np
import pytest
import rota
from runs import refused, source

EPISODES = np.repeat([7, 3, 9], [6, 5, 9])
ROWS = [{"n": n, "episode_index": episode} for n, episode in enumerate(EPISODES)]


def epochs_of(made, **options):
    """The rows of each window in each epoch."""
    with rota.Loader(made, 4, epochs=3, world=(0, 1), **options) as batches:
        found = {(int(e), int(i)): row.tolist() for batch in batches for e, i, row in zip(batch.epochs, batch.ids, batch["n"])}
    return [[found[epoch, i] for i in range(len(made))] for epoch in range(3)]


def test_jitter_moves_windows_anew_in_each_epoch_inside_of_their_episode():
    moved = rota.windows(rota.PythonSource(ROWS), 3, 2, jitter=2, seed=4, episodes=[6, 5, 9])
    epochs = epochs_of(moved)
    assert epochs[0] != epochs[1] != epochs[2] and epochs == epochs_of(moved, workers=0, shuffle="none")
    for windows in epochs:
        for i, window in enumerate(windows):
            assert window == list(range(window[0], window[0] + 3)) and len({*EPISODES[window]}) == 1
            assert abs(window[0] - [0, 2, 6, 8, 11, 13, 15, 17][i]) <= 2
    assert [moved[i]["n"].tolist() for i in range(8)] == epochs[0]
    assert [moved[rota.Index.of(i, 2, 0)]["n"].tolist() for i in range(8)] == epochs[2], "as torch's DataLoader reads"
    assert pickle.loads(pickle.dumps(moved)).fingerprint == moved.fingerprint
    still = rota.windows(source(9), 3, seed=4)
    assert still.fingerprint == rota.windows(source(9), 3).fingerprint != rota.windows(source(9), 3, jitter=1).fingerprint


def test_a_run_that_goes_on_in_the_middle_of_an_epoch_has_the_same_windows():
    moved = rota.windows(rota.PythonSource(ROWS), 3, jitter=2, episodes="episode_index")
    run, again = (rota.Loader(moved, 3, epochs=3, world=(0, 1)) for _ in range(2))
    for _ in range(6):
        run.next()
    again.load_state_dict(run.state_dict())
    assert [batch["n"].tolist() for batch in again] == [batch["n"].tolist() for batch in run]


def test_episodes_are_lengths_or_a_field_that_numbers_them():
    rows = rota.PythonSource(ROWS)
    by_length = rota.windows(rows, offsets=[0, 4], edges="clamp", episodes=np.array([6, 5, 9]))
    by_field = rota.windows(rows, offsets=[0, 4], edges="clamp", episodes="episode_index")
    assert by_field.fingerprint == by_length.fingerprint == pickle.loads(pickle.dumps(by_field)).fingerprint
    assert by_field[4]["n"].tolist() == [4, 5] and by_field[4]["is_real"].tolist() == [1, 0]
    assert len(rota.windows(rota.take(rows, 0), 2, episodes=[])) == len(rota.windows(rota.take(rows, 0), 2, episodes="n")) == 0


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"episodes": [6, 5]}, ValueError, "the episodes have 11 rows, and the dataset 20"),
        ({"episodes": []}, ValueError, "the episodes have 0 rows"),
        ({"episodes": [20.0]}, TypeError, "episodes is 20.0; it must be a number"),
        ({"episodes": 20}, TypeError, "a list of numbers"),
        ({"episodes": "episode"}, LookupError, 'no field "episode"; there are "n" int64'),
        ({"episodes": "episode_index", "across_files": True}, ValueError, "across_files"),
        ({"jitter": -1}, ValueError, "jitter is -1"),
        ({"seed": -1}, ValueError, "seed is -1"),
    ],
)
def test_what_cannot_be_is_refused(options, error, words):
    refused(lambda: rota.windows(rota.PythonSource(ROWS), 2, **options), error, words)


def test_rows_that_are_not_sorted_by_episode_are_refused():
    refused(lambda: rota.windows(rota.PythonSource(ROWS + ROWS[:1]), 2, episodes="episode_index"), ValueError, "row 20 .* at row 11; sort")
    refused(lambda: rota.windows(rota.PythonSource([{"x": 0.5}]), 1, episodes="x"), ValueError, "is no integer")
