"""A report for people."""

from __future__ import annotations

from typing import Any

HEADER = (
    " batch context   step us  lowest  highest      MB   TB/s  of ceiling  PyTorch us  ratio"
    "  first token ms  logits error (bf16)  calls that differ"
)


def print_table(report: dict[str, Any]) -> None:
    where = "GPU" if report["cuda"] else "host"
    ceiling = report["ceiling"]
    peak = (
        "" if ceiling is None else f"; read ceiling {ceiling['tb_per_second']:.3f} TB/s ({ceiling['method']})"
    )
    print(f"{report['model']} on {where}, {report['workers']} workers{peak}")
    print(HEADER)
    for row in report["cases"]:
        print(line(row))
    for row in report["cases"]:
        if "endurance" in row:
            run = row["endurance"]
            print(
                f"batch {row['batch']}, context {row['context']:g}: {run['steps']} steps in {run['calls']} "
                f"calls, {run['changed']} of which differ, {run['seconds']:.1f} s"
            )
    for what, why in report["missing"].items():
        print(f"no {what}: {why}")
    for row in filter(is_wrong, report["cases"]):
        print(f"batch {row['batch']}, context {row['context']:g}: WRONG OUTPUT")


def line(row: dict[str, Any]) -> str:
    share = row["ceiling_share"]
    error = f"{figure(row.get('logits_error'), 5)} ({figure(row.get('logits_error_bf16'), 5)})"
    return (
        f"{row['batch']:6} {row['context']:7g} {figure(row['step_us'], 1):>9} {row['step_us_lowest']:7.1f} "
        f"{row['step_us_highest']:8.1f} {row['bytes'] / 1e6:7.1f} {figure(row['tb_per_second'], 3):>6} "
        f"{'-' if share is None else f'{share:.1%}':>11} {figure(row.get('torch_step_us'), 1):>11} "
        f"{figure(row.get('torch_ratio'), 2):>6} {row['first_token_ms']:15.3f} {error:>20} {changed(row):18}"
    )


def figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def changed(row: dict[str, Any]) -> int:
    """Calls of a case whose output differs from that of the first call of its kind."""
    return row["changed"] + row.get("endurance", {}).get("changed", 0)


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether a check of a case failed; a check that could not be made did not."""
    return changed(row) > 0 or row.get("logits_correct") is False


def summary(report: dict[str, Any]) -> str:
    """One line: the step of each case and its share of the ceiling."""
    cases = []
    for row in report["cases"]:
        share = "" if row["ceiling_share"] is None else f" ({row['ceiling_share']:.1%} of the ceiling)"
        ratio = "" if row.get("torch_ratio") is None else f", PyTorch x{row['torch_ratio']:.2f}"
        wrong = ", WRONG OUTPUT" if is_wrong(row) else ""
        cases.append(f"{row['batch']}x{row['context']:g} {figure(row['step_us'], 1)} us{share}{ratio}{wrong}")
    return f"{report['model']}: " + "; ".join(cases)
