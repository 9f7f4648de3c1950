import numpy as np

from kgen.tgraph.tgraph import EMPTY, NONE, Tasks, TGraph, single
from tests.passes.dags import events


def test_descriptions_name_the_operator_and_the_piece() -> None:
    columns = [
        np.array(c, dtype=np.int64) for c in ([0, 1, EMPTY], [0, 8, 0], [8, 16, 0], [0, 3, 0], [0, 1, -1])
    ]
    graph = TGraph(("qkv", "attention"), Tasks(*columns))
    assert [graph.describe(i) for i in range(3)] == ["qkv[0:8]", "attention[8:16]/3", "empty task 2"]


def test_waits_and_triggers() -> None:
    graph = events("start => a; a => b; a => c; b c => d")
    assert graph.waits() == [[0], [1], [2], [3]]
    assert graph.triggers() == [[1, 2], [3], [3], []]
    assert single(graph.waits()).tolist() == [0, 1, 2, 3]
    assert single([[], [4]]).tolist() == [NONE, 4]


def test_empty_tasks_come_last_and_have_no_origin() -> None:
    tasks = events("start => a b; a b => c").tasks.with_empty(2)
    assert tasks.op.tolist() == [0, 1, 2, EMPTY, EMPTY]
    assert tasks.origin.tolist() == [0, 1, 2, -1, -1]
    assert tasks.take(np.array([4, 0])).op.tolist() == [EMPTY, 0]
