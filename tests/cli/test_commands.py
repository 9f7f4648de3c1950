"""The command line as a user meets it: what is printed where, and the exit codes."""

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen.cli.graph import GraphLevel
from kgen.report.drawing import Level
from tests.cli.process import KGEN, ROOT, kgen, one_sentence, shell

COMMANDS = [
    "check",
    "expand",
    "generate",
    "build",
    "test",
    "bench",
    "pack",
    "run",
    "trace",
    "explain",
    "graph",
    "schema",
    "doctor",
    "list",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "tiny"
    assert kgen("generate", "tiny", "-o", folder).returncode == 0
    return folder


def test_version() -> None:
    assert kgen("--version").stdout == "kgen 0.1.0\n"


def test_module_does_the_same() -> None:
    assert (
        subprocess.check_output([sys.executable, "-m", "kgen.cli", "--version"], text=True) == "kgen 0.1.0\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = kgen(command, "--help")
    assert done.returncode == 0
    assert f"Usage: kgen {command}" in done.stdout


def test_help_names_every_command() -> None:
    done = kgen("--help")
    assert [line.split()[0] for line in done.stdout.split("Commands:")[1].splitlines() if line] == COMMANDS


@pytest.mark.parametrize("arguments", [["no-such-command"], ["check"], ["list", "--no-such-option"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = kgen(*arguments)
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert done.stdout == ""


def test_list_names_the_shipped_specs() -> None:
    names = sorted(path.stem for path in (ROOT / "specs").glob("*/*.yaml"))
    assert kgen("list").stdout.splitlines() == names
    entries = json.loads(kgen("list", "--json").stdout)
    assert [entry["name"] for entry in entries] == names
    assert all(Path(entry["path"]).is_file() for entry in entries)


def test_check_of_a_correct_spec() -> None:
    done = kgen("check", "tiny")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("tiny: correct; ")


def test_a_path_comes_before_a_shipped_name(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_text("kgen: 1\n")
    done = kgen("check", "tiny", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("tiny:")


def test_an_unknown_spec_is_named_with_the_nearest() -> None:
    assert one_sentence(kgen("check", "qwen3-8bb"), 2).endswith("did you mean 'qwen3-8b'?")


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    assert "is a folder" in one_sentence(kgen("check", tmp_path), 2)


def test_expanded_spec_makes_the_same_project(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "expanded.yaml").write_text(kgen("expand", "tiny").stdout)
    done = kgen("generate", tmp_path / "expanded.yaml", "-o", tiny, "--check")
    assert done.returncode == 0, done.stderr


def test_schema_is_json() -> None:
    assert json.loads(kgen("schema").stdout)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_explain_prints_a_table_and_json() -> None:
    table = kgen("explain", "tiny")
    assert table.returncode == 0
    assert "events" in table.stdout
    report = json.loads(kgen("explain", "tiny", "--json").stdout)
    keys = {"operators", "tasks", "tasks_per_operator", "pairs", "events", "empty_tasks"}
    assert keys | {"bytes_before", "bytes_after", "passes"} <= report.keys()


def test_explain_for_other_sizes() -> None:
    tasks = [
        json.loads(kgen("explain", "tiny", "--json", *more).stdout)["tasks"]
        for more in ([], ["--batch", "1"], ["--sms", "132"], ["--workers", "132"])
    ]
    assert tasks[1] < tasks[0]
    assert tasks[2] == tasks[3]


@pytest.mark.parametrize(
    ("form", "start"), [("dot", "digraph"), ("mermaid", "flowchart"), ("html", "<!doctype html>")]
)
def test_graph_in_every_format(form: str, start: str, tmp_path: Path) -> None:
    done = kgen("graph", "tiny", "--format", form)
    assert done.returncode == 0
    assert done.stdout.lstrip().lower().startswith(start)
    assert kgen("graph", "tiny", "--format", form, "-o", tmp_path / "graph").returncode == 0
    assert (tmp_path / "graph").read_text().strip() == done.stdout.strip()


def test_graph_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "graph"
    assert one_sentence(kgen("graph", "tiny", "-o", path), 2) == f"{path}: No such file or directory"


def test_graph_levels_are_those_of_the_report() -> None:
    assert [level.value for level in GraphLevel] == [level.value for level in Level]
    sizes = [len(kgen("graph", "tiny", "--level", level.value).stdout) for level in Level]
    assert sizes[0] < sizes[1]


def test_doctor() -> None:
    done = kgen("doctor")
    assert done.returncode == 0, done.stdout
    assert "C++20 compiler" in done.stdout
    assert json.loads(kgen("doctor", "--json").stdout)["host"] is True


def test_doctor_without_a_compiler_is_3(tmp_path: Path) -> None:
    done = kgen("doctor", CXX=str(tmp_path / "none"))
    assert done.returncode == 3
    assert "apt-get install g++" in done.stdout


def test_generate_goes_to_the_name_by_default(tmp_path: Path) -> None:
    done = kgen("generate", "tiny", cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "tiny" / "CMakeLists.txt").is_file()


def test_generate_again_writes_nothing(tiny: Path) -> None:
    assert ": 0 files written, " in kgen("generate", "tiny", "-o", tiny).stderr


def test_check_and_diff_of_an_edited_project(tiny: Path, tmp_path: Path) -> None:
    project = tmp_path / "edited"
    assert kgen("generate", "tiny", "-o", project).returncode == 0
    assert kgen("generate", "tiny", "-o", project, "--check").returncode == 0
    assert kgen("generate", "tiny", "-o", project, "--diff").stdout == ""

    source = project / "src" / "plan.hpp"
    original = source.read_text()
    source.write_text(original + "// mine\n")
    stale = kgen("generate", "tiny", "-o", project, "--check")
    assert (stale.returncode, stale.stdout) == (1, "")
    assert "  src/plan.hpp\n" in stale.stderr
    diff = kgen("generate", "tiny", "-o", project, "--diff")
    assert diff.returncode == 0
    assert "--- a/src/plan.hpp\n+++ b/src/plan.hpp\n" in diff.stdout
    assert "\n-// mine\n" in diff.stdout

    refused = kgen("generate", "tiny", "-o", project)
    assert refused.returncode == 2
    assert "  src/plan.hpp\n" in refused.stderr
    assert source.read_text() == original + "// mine\n"
    assert kgen("generate", "tiny", "-o", project, "--force").returncode == 0
    assert source.read_text() == original


def test_diff_check_and_force_exclude_each_other(tmp_path: Path) -> None:
    assert "exclude each other" in one_sentence(
        kgen("generate", "tiny", "--check", "--force", cwd=tmp_path), 2
    )


@pytest.mark.parametrize("place", ["/proc/nowhere/tiny", "{tmp}/file", "{tmp}/file/below"])
def test_generate_to_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    path = place.format(tmp=tmp_path)
    assert path.removesuffix("/below").removesuffix("/tiny") in one_sentence(
        kgen("generate", "tiny", "-o", path), 2
    )


@pytest.mark.parametrize("command", ["build", "test", "bench"])
def test_a_folder_that_is_no_project(command: str, tmp_path: Path) -> None:
    assert "is not a generated project" in one_sentence(kgen(command, tmp_path), 3)
    assert "is not a generated project" in one_sentence(kgen(command, tmp_path / "none"), 3)


def test_a_build_without_a_compiler(tiny: Path, tmp_path: Path) -> None:
    sentence = one_sentence(kgen("build", tiny, "--preset", "host", CXX=str(tmp_path / "none")), 3)
    assert sentence.startswith("a C++20 compiler was not found")


def test_a_build_that_fails_shows_the_compiler(tmp_path: Path) -> None:
    assert kgen("generate", "tiny", "-o", tmp_path / "tiny").returncode == 0
    (tmp_path / "tiny" / "src" / "plan.hpp").write_text("#error edited by hand\n")
    done = kgen("build", tmp_path / "tiny", "--preset", "host")
    assert (done.returncode, done.stdout) == (3, "")
    assert "edited by hand" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--weights", "-w"])
def test_packing_from_nowhere(tiny: Path, tmp_path: Path, option: str) -> None:
    assert str(tmp_path / "none") in one_sentence(kgen("pack", tiny, option, tmp_path / "none"), 2)


def test_running_what_is_not_built(tmp_path: Path) -> None:
    assert kgen("generate", "tiny", "-o", tmp_path / "tiny").returncode == 0
    assert "kgen build" in one_sentence(kgen("run", tmp_path / "tiny", "--prompt", "hello"), 2)


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """`kgen ... | head -1`: no traceback and no hang."""
    with subprocess.Popen(
        [KGEN, "expand", "tiny"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    "command", ["expand tiny", "graph tiny --format html", "list --json", "explain tiny"]
)
def test_an_output_that_cannot_be_written(command: str) -> None:
    full = shell(f"{KGEN} {command} > /dev/full")
    assert one_sentence(full, 2) == "cannot write the output: No space left on device"
    for closed in (">&-", "<&-", "2>&-", ">&- 2>&- <&-"):
        assert shell(f"{KGEN} {command} {closed}").returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])  # with a buffer, the interpreter tries again at its end
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_message_that_cannot_be_written(redirection: str, unbuffered: str) -> None:
    command = f"PYTHONUNBUFFERED={unbuffered} {KGEN}"
    for wrong in ("check nosuchspec", "check --nosuchoption", "nosuchcommand"):
        done = shell(f"{command} {wrong} {redirection}")
        assert (done.returncode, done.stdout) == (2, "")
    assert shell(f"{command} check tiny {redirection}").returncode == 0


def test_output_is_the_same_in_every_locale(tmp_path: Path) -> None:
    spec = tmp_path / "ü.yaml"
    text = (ROOT / "specs/models/tiny.yaml").read_text()
    spec.write_text(text.replace("model.norm.weight", "é.名前"), encoding="utf-8")
    expected = kgen("expand", spec).stdout
    assert "é.名前" in expected
    assert kgen("expand", spec, PYTHONIOENCODING="ascii", LC_ALL="C").stdout == expected
    assert kgen("expand", spec, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0").stdout == expected


def interrupted(out: Path, after_s: float) -> bool:
    """Whether an interrupt came so long after the compiler had begun, and not too late."""
    command = [KGEN, "generate", "qwen3-8b", "-o", out]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # The compiler is what loads NumPy.
        while process.poll() is None and "umath" not in Path(f"/proc/{process.pid}/maps").read_text():
            time.sleep(0.01)
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    if process.returncode == 0:
        return False
    assert (process.returncode, said) == (130, "interrupted\n")
    return True


def test_interrupted(tmp_path: Path) -> None:
    """Nothing is left. On a machine that does other things this process may learn late that it has begun."""
    for turn in range(5):
        if interrupted(tmp_path / str(turn), 0.2 / 2**turn):
            assert not (tmp_path / str(turn)).exists()
            return
    pytest.fail("it was never there to be interrupted")


def test_qwen3_8b_is_generated_in_5_seconds(tmp_path: Path) -> None:
    """Of the processor: what else the machine does meanwhile does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert kgen("generate", "qwen3-8b", "-o", tmp_path / "out").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
