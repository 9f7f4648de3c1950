"""What killed writes leave behind, and folders that files cannot be renamed into."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from kgen.render import staging
from kgen.render.project import MANIFEST
from kgen.render.staging import staging_folder, sweep
from kgen.render.writer import WriteError, write_tree
from tests.render.trees import make_tree, on_disk


def killed_while_staging(tree: dict[str, str], dest: Path) -> None:
    """Write as a process that dies before the first file is in place."""
    child = os.fork()
    if child == 0:
        os.rename = os.replace = lambda *_: os._exit(9)
        write_tree(tree, dest)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_what_killed_runs_left_is_removed_by_the_next_that_succeeds(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed_while_staging(make_tree(a="1\n"), out)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.kgen.")
    write_tree(make_tree(a="1\n"), tmp_path / "other")
    assert left.exists()  # it belongs to another destination
    write_tree(make_tree(a="1\n"), out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "out"]

    killed_while_staging(make_tree(a="2\n"), out)
    assert min(p.name for p in out.iterdir()).startswith(".kgen.")
    assert write_tree(make_tree(a="1\n"), out).written == []
    assert sorted(p.name for p in out.iterdir()) == ["a", MANIFEST]


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_tree(make_tree(a="1\n"), out)
    kept = [".out.settings", ".out.kgen.ab", ".out.kgen.ABCDEFGH", "out/.kgen.notes", "precious"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / ".out.kgen.12345678").symlink_to("precious")
    (tmp_path / ".out.kgen.87654321").write_text("mine\n")
    with staging_folder(tmp_path, ".out.kgen.") as busy:  # of a writer that is still at work
        write_tree(make_tree(a="2\n"), out)
        assert busy.is_dir()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [*kept[:3], "precious", "out", ".out.kgen.12345678", ".out.kgen.87654321"]
    )
    assert (out / ".kgen.notes").is_dir()


def test_a_sweep_between_making_and_locking_a_folder_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = tempfile.mkdtemp, []

    def swept(**options: object) -> str:
        made.append(real(**options))
        if len(made) == 1:
            sweep(tmp_path, ".out.kgen.")
        return made[-1]

    monkeypatch.setattr(staging.tempfile, "mkdtemp", swept)
    with staging_folder(tmp_path, ".out.kgen.") as folder:
        assert [str(folder)] == made[1:]
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_on_another_filesystem_is_named_before_anything_is_written(
    tmp_path: Path, force: bool
) -> None:
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second filesystem here")
    out = tmp_path / "out"
    write_tree(make_tree(a="1\n", b__c="1\n"), out)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as away:
        shutil.copy(out / "b" / "c", away)
        shutil.rmtree(out / "b")
        (out / "b").symlink_to(away)
        before = on_disk(out)
        with pytest.raises(WriteError, match="on another filesystem") as caught:
            write_tree(make_tree(a="2\n", b__c="2\n"), out, force=force)
        assert f"\n  {out / 'b'}\n" in str(caught.value)
        assert on_disk(out) == before
        assert Path(away, "c").read_text() == "1\n"
        # Where nothing has to move there, it does no harm.
        assert write_tree(make_tree(a="2\n", b__c="1\n"), out, force=force).written == ["a", MANIFEST]
