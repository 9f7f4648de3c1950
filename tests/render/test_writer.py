import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kgen.render.project import MANIFEST
from kgen.render.writer import EditedError, WriteError, check_tree, diff_tree, write_tree
from tests.render.trees import make_tree, on_disk


def test_new_destination_holds_exactly_the_tree(tmp_path: Path) -> None:
    tree = make_tree(a="one\n", src__b="two\n")
    report = write_tree(tree, tmp_path / "deep" / "out")
    assert on_disk(tmp_path / "deep" / "out") == tree
    assert report.written == sorted(tree)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["out"]


def test_second_write_touches_nothing(tmp_path: Path) -> None:
    tree = make_tree(a="one\n")
    write_tree(tree, tmp_path / "out")
    before = (tmp_path / "out" / "a").stat()
    report = write_tree(tree, tmp_path / "out")
    after = (tmp_path / "out" / "a").stat()
    assert report.written == []
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_changed_text_replaces_an_unedited_file(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", b="b\n"), tmp_path / "out")
    report = write_tree(make_tree(a="two\n", b="b\n"), tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "two\n"
    assert report.written == ["a", MANIFEST]
    assert report.unchanged == ["b"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a", "b", MANIFEST]


def test_edited_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", b="one\n"), tmp_path / "out")
    (tmp_path / "out" / "a").write_text("mine\n")
    before = on_disk(tmp_path / "out")
    with pytest.raises(EditedError) as caught:
        write_tree(make_tree(a="two\n", b="two\n"), tmp_path / "out")
    assert caught.value.paths == ["a"]
    assert "  a\n" in str(caught.value)
    assert on_disk(tmp_path / "out") == before


def test_force_overwrites_an_edit(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n"), tmp_path / "out")
    (tmp_path / "out" / "a").write_text("mine\n")
    write_tree(make_tree(a="two\n"), tmp_path / "out", force=True)
    assert (tmp_path / "out" / "a").read_text() == "two\n"


def test_an_edit_that_equals_the_new_text_is_no_conflict(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n"), tmp_path / "out")
    (tmp_path / "out" / "a").write_text("two\n")
    report = write_tree(make_tree(a="two\n"), tmp_path / "out")
    assert report.written == [MANIFEST]


def test_deleted_file_is_written_again(tmp_path: Path) -> None:
    tree = make_tree(a="one\n")
    write_tree(tree, tmp_path / "out")
    (tmp_path / "out" / "a").unlink()
    assert write_tree(tree, tmp_path / "out").written == ["a"]
    assert on_disk(tmp_path / "out") == tree


def test_files_of_the_user_are_left_alone(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n"), tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine\n")
    write_tree(make_tree(a="two\n"), tmp_path / "out", force=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine\n"


def test_a_file_of_the_user_in_the_way_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("mine\n")
    with pytest.raises(EditedError) as caught:
        write_tree(make_tree(a="one\n"), out)
    assert caught.value.paths == ["a"]
    assert on_disk(out) == {"a": "mine\n"}


def test_a_file_no_longer_generated_goes_with_its_folder(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", old__deep__b="b\n"), tmp_path / "out")
    report = write_tree(make_tree(a="one\n"), tmp_path / "out")
    assert report.removed == ["old/deep/b"]
    assert not (tmp_path / "out" / "old").exists()


def test_a_folder_that_holds_something_else_stays(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", old__b="b\n"), tmp_path / "out")
    (tmp_path / "out" / "old" / "mine").write_text("mine\n")
    write_tree(make_tree(a="one\n"), tmp_path / "out")
    assert [p.name for p in (tmp_path / "out" / "old").iterdir()] == ["mine"]


def test_an_edited_file_no_longer_generated_is_kept(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", b="b\n"), tmp_path / "out")
    (tmp_path / "out" / "b").write_text("mine\n")
    report = write_tree(make_tree(a="one\n"), tmp_path / "out")
    assert (report.kept, report.removed) == (["b"], [])
    assert (tmp_path / "out" / "b").read_text() == "mine\n"


def test_a_manifest_cannot_delete_outside_the_destination(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep\n")
    out = tmp_path / "out"
    write_tree(make_tree(a="one\n"), out)
    manifest = json.loads((out / MANIFEST).read_text())
    digest = hashlib.sha256(b"keep\n").hexdigest()
    manifest["files"] |= {"../precious": digest, str(precious): digest, "a\0b": digest}
    (out / MANIFEST).write_text(json.dumps(manifest))
    assert write_tree(make_tree(a="two\n"), out).removed == []
    assert precious.read_text() == "keep\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', "{"])
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str) -> None:
    write_tree(make_tree(a="one\n"), tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text(text)
    with pytest.raises(WriteError, match="damaged"):
        write_tree(make_tree(a="two\n"), tmp_path / "out")


def test_destination_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(WriteError, match="is a file"):
        write_tree(make_tree(a="one\n"), tmp_path / "out")


def test_a_destination_that_is_a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(WriteError, match="out is a link to something that does not exist"):
        write_tree(make_tree(a="one\n"), tmp_path / "out")


@pytest.mark.parametrize("force", [False, True])
def test_what_cannot_be_overwritten_is_named_before_anything_is_written(tmp_path: Path, force: bool) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    (tmp_path / "src").write_text("a file\n")
    (tmp_path / "linked").symlink_to("nowhere")
    tree = make_tree(a="1\n", b="2\n", pipe="3\n", src__c="4\n", linked__d="5\n")
    with pytest.raises(WriteError, match="in the way") as error:
        write_tree(tree, tmp_path, force=force)
    assert str(error.value).splitlines()[1:] == [
        f"  {tmp_path / name}" for name in ("a", "linked", "pipe", "src")
    ]
    with pytest.raises(WriteError, match="in the way"):
        check_tree(tree, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "linked", "pipe", "src"]


@pytest.mark.parametrize("step", range(8))
def test_a_write_that_is_killed_is_completed_by_the_next(tmp_path: Path, step: int) -> None:
    old = make_tree(a="1\n", b="2\n", gone__c="3\n")
    new = make_tree(a="11\n", b="22\n", d__e="4\n")
    write_tree(old, tmp_path / "out")
    # Die at the `step`-th change of the folder.
    child = os.fork()
    if child == 0:
        left = step

        def dying(real: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: object, **options: object) -> None:
                nonlocal left
                if left == 0:
                    os._exit(9)
                left -= 1
                real(*arguments, **options)

            return call

        os.replace, os.unlink = dying(os.replace), dying(os.unlink)
        write_tree(new, tmp_path / "out")
        os._exit(0)
    os.waitpid(child, 0)
    write_tree(new, tmp_path / "out")
    assert on_disk(tmp_path / "out") == new
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_destination_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(WriteError, match="cannot write"):
        write_tree(make_tree(a="one\n"), tmp_path / "out" / "below")


def test_a_failure_while_staging_leaves_no_trace(tmp_path: Path) -> None:
    tree = make_tree(a="one\n", b="b\n") | {"a/below": "a file is in the way\n"}
    with pytest.raises(WriteError):
        write_tree(tree, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_staging_leaves_an_existing_tree_as_it_was(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", b="b\n"), tmp_path / "out")
    before = on_disk(tmp_path / "out")
    with pytest.raises(WriteError):
        write_tree(make_tree(a="two\n", c="c\n") | {"c/below": "\n"}, tmp_path / "out", force=True)
    assert on_disk(tmp_path / "out") == before


def test_check_names_what_is_stale(tmp_path: Path) -> None:
    write_tree(make_tree(a="one\n", b="b\n", c="c\n", d="d\n"), tmp_path / "out")
    (tmp_path / "out" / "d").unlink()
    assert check_tree(make_tree(a="two\n", b="b\n", d="d\n"), tmp_path / "out") == ["a", "c", "d", MANIFEST]
    assert check_tree(make_tree(a="one\n", b="b\n", c="c\n"), tmp_path / "none") == ["a", "b", "c", MANIFEST]


def test_check_of_an_up_to_date_tree_is_empty(tmp_path: Path) -> None:
    tree = make_tree(a="one\n")
    write_tree(tree, tmp_path / "out")
    assert check_tree(tree, tmp_path / "out") == []


def test_diff_is_what_patch_applies(tmp_path: Path) -> None:
    """The independent reference is patch(1): it must turn the old tree into the new one."""
    out = tmp_path / "out"
    new = make_tree(a="one\ntwo\nTHREE\n", src__new="x\ny\n", no_newline="end of line\nno newline")
    write_tree(make_tree(a="one\ntwo\nthree\n", old="gone\n", no_newline="end"), out)
    before = on_disk(out)
    diff = diff_tree(new, out)
    assert on_disk(out) == before
    subprocess.run(["patch", "-p1", "-s", "-E"], cwd=out, input=diff, text=True, check=True)
    assert on_disk(out) == new


def test_scripts_are_executable(tmp_path: Path) -> None:
    write_tree(make_tree(run="#!/bin/sh\necho ran\n", a="one\n"), tmp_path / "out")
    assert subprocess.check_output([tmp_path / "out" / "run"], text=True) == "ran\n"
    assert not os.access(tmp_path / "out" / "a", os.X_OK)


def test_two_writers_at_once_leave_whole_files(tmp_path: Path) -> None:
    """Both write the same new destination; one may lose the race, but never with half a tree."""
    program = (
        "import sys, json, pathlib\n"
        "from kgen.render.writer import write_tree, WriteError\n"
        "tree = json.loads(sys.stdin.read())\n"
        "try:\n    write_tree(tree, pathlib.Path(sys.argv[1]))\n"
        "except WriteError as error:\n    print(error)\n"
    )
    tree = make_tree(**{f"f{i}": f"{i}\n" * 100 for i in range(50)})
    out = tmp_path / "out"
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(out)], stdin=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(json.dumps(tree))
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert on_disk(out) == tree
