import ml_dtypes
import numpy as np

from kgen.ir.machine import Finish, KvCache, Request, Sequence, next_step


def sequences(*prompts_and_positions: tuple[int, int]) -> list[Sequence]:
    """Sequences with prompts 100 s, 100 s + 1, ... and so many tokens read."""
    return [
        Sequence(Request(tuple(range(100 * s, 100 * s + length)), 9), position=position)
        for s, (length, position) in enumerate(prompts_and_positions)
    ]


def test_prompts_share_the_rows_in_sequence_order() -> None:
    step = next_step(sequences((5, 0), (2, 0), (9, 0)), batch=4, rows=8)
    # One row each leaves five: four to finish the first prompt, one to finish the second, none for the third.
    assert step.rows_of.tolist() == [5, 2, 1, 0]
    assert step.first_row[:3].tolist() == [0, 5, 7]
    assert step.tokens.tolist() == [0, 1, 2, 3, 4, 100, 101, 200]
    assert step.position.tolist() == [0, 1, 2, 3, 4, 0, 1, 0]
    assert step.sequence.tolist() == [0, 0, 0, 0, 0, 1, 1, 2]
    assert step.sample_row.tolist() == [4, 6, -1, -1]


def test_decoding_sequences_have_one_row_and_finished_ones_none() -> None:
    running = sequences((3, 3), (4, 4), (6, 2))
    running[0].tokens.append(77)
    running[1].tokens.append(78)
    running[1].finish = Finish.LENGTH
    step = next_step(running, batch=3, rows=4)
    assert step.rows_of.tolist() == [1, 0, 3]
    assert step.tokens.tolist() == [77, 202, 203, 204]
    assert step.position.tolist() == [3, 2, 3, 4]
    assert step.sample_row.tolist() == [0, -1, -1]


def test_scoring_reads_one_token_a_step_and_samples_each_time() -> None:
    scored = Sequence(Request((5, 6, 7), 1, score_prompt=True))
    step = next_step([scored], batch=1, rows=4)
    assert (step.rows_of.tolist(), step.sample_row.tolist(), step.tokens.tolist()) == ([1], [0], [5])


def test_history_follows_the_page_table() -> None:
    data = np.zeros((2, 6, 2, 1, 2, 4), dtype=ml_dtypes.bfloat16)
    cache = KvCache(data, np.array([[4, 1, 2], [0, 5, 3]]))
    for position in range(5):
        key, value = cache.entry(layer=1, sequence=1, head=0, position=position)
        key[:], value[:] = position, 10 + position
    # Position 4 of sequence 1 is the first token of its third page, which is page 3 of the layer.
    assert data[1, 3, :, 0, 0, 0].tolist() == [4, 14]
    assert data[0].any() == np.False_
    keys, values = cache.history(layer=1, sequence=1, head=0, length=5)
    assert keys[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert values[:, 3].tolist() == [10, 11, 12, 13, 14]
