"""The command `popularity`: whom it draws, what it says when they are not there, and what it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from llmtrace.cli import main
from llmtrace.report import figures

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
DAY_S = 86_400


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """40 days on a relative clock. User `a` asks `m1` daily, `b` asks `m1` and `m2` every other day, `c` asks `m2` once, late."""
    rows = [(day * DAY_S + 10, "a", "m1") for day in range(40)]
    rows += [(day * DAY_S + 20 + side, "b", model) for day in range(0, 40, 2) for side, model in enumerate(("m1", "m2"))][:-2]
    rows += [(39 * DAY_S + 500, "c", "m2")]
    lines = [f"{time}.000,100,20,{user},{model}" for time, user, model in sorted(rows)]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["timestamp,input_tokens,output_tokens,user,model", *lines]))
    return str(path)


def result_of(arguments: list[str], capsys: Capture) -> dict[str, Any]:
    assert main(["popularity", *arguments, "--time-unit", "s", "--format", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_models_and_users_are_ranked(trace: str, capsys: Capture) -> None:
    result = result_of([trace], capsys)
    scalars = result["scalars"]
    assert (scalars["requests"], scalars["users"], scalars["models"], scalars["pairs"]) == (79, 3, 2, 4)
    assert scalars["top1_user_share"] == pytest.approx(40 / 79)
    assert result["primary"] == "models"
    tables = result["tables"]
    assert [(row["model"], row["requests"], row["users"], row["users_for_90"]) for row in tables["models"]] == [
        ("m1", 59, 2, 2),
        ("m2", 20, 2, 1),
    ]
    assert [(row["user"], row["requests"], row["models"]) for row in tables["users"]] == [("a", 40, 1), ("b", 38, 2), ("c", 1, 1)]
    assert not {"rasters", "user_access", "model_access"} & tables.keys()


def test_rasters_of_ranks_begin_with_the_first_request(trace: str, capsys: Capture) -> None:
    tables = result_of([trace, "--user-rank", "2", "--user-rank", "1", "--model-rank", "2", "--days", "10"], capsys)["tables"]
    named = [(row["of"], row["rank"], row["name"], row["requests"], row["entities"]) for row in tables["rasters"]]
    assert named == [("user", 1, "a", 10, 1), ("user", 2, "b", 10, 2), ("model", 2, "m2", 5, 1)]
    assert [row["start"] for row in tables["rasters"]] == [0, 10, 11]
    mine = [row for row in tables["user_access"] if row["user"] == "b"]
    assert [(row["row"], row["model"]) for row in mine] == [(1, "m1")] * 5 + [(2, "m2")] * 5
    assert [row["elapsed_s"] for row in mine] == [2 * DAY_S * step + side for side in (0, 1) for step in range(5)]
    assert {row["user"] for row in tables["model_access"]} == {"b"}


def test_a_raster_ends_with_the_trace(trace: str, capsys: Capture) -> None:
    [raster] = result_of([trace, "--user-rank", "3"], capsys)["tables"]["rasters"]
    assert (raster["name"], raster["requests"], raster["span_s"]) == ("c", 1, 1e-6)


def test_whoever_a_filter_names_is_drawn(trace: str, capsys: Capture) -> None:
    tables = result_of([trace, "--user", "b", "--user", "c", "--user", "nobody"], capsys)["tables"]
    assert [(row["of"], row["name"]) for row in tables["rasters"]] == [("user", "b"), ("user", "c")]
    assert len(tables["models"]) == 2
    tables = result_of([trace, "--model", "m2"], capsys)["tables"]
    assert [(row["of"], row["name"]) for row in tables["rasters"]] == [("model", "m2")]


def test_filters_hold_in_rasters_too(trace: str, capsys: Capture) -> None:
    since = ["--since", "5d", "--until", "15d"]
    tables = result_of([trace, "--user-rank", "1", *since], capsys)["tables"]
    assert tables["rasters"][0]["requests"] == tables["users"][0]["requests"] == 10


def test_dates_are_those_of_the_trace(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace.csv"
    rows = [f"2025-04-{day:02}T12:00:00Z,1,1,u,m" for day in range(1, 31)]
    path.write_text("\n".join(["timestamp,input_tokens,output_tokens,user,model", *rows]))
    tables = result_of([str(path), "--model-rank", "1", "--days", "3"], capsys)["tables"]
    assert (tables["rasters"][0]["start"], tables["rasters"][0]["end"]) == ("2025-04-01T12:00:00Z", "2025-04-04T12:00:00Z")
    assert [row["time"][:10] for row in tables["model_access"]] == ["2025-04-01", "2025-04-02", "2025-04-03"]


def test_every_user_is_listed_on_request(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace.csv"
    rows = [f"{1_700_000_000 + row},1,1,u{row % 1_100},m" for row in range(1_200)]
    path.write_text("\n".join(["timestamp,input_tokens,output_tokens,user,model", *rows]))
    result = result_of([str(path)], capsys)
    assert len(result["tables"]["users"]) == 1_000
    assert any("--per-user lists all" in note for note in result["notes"])
    assert len(result_of([str(path), "--per-user"], capsys)["tables"]["users"]) == 1_100
    [raster] = result_of([str(path), "--user-rank", "1050"], capsys)["tables"]["rasters"]
    assert raster["rank"] == 1_050


def test_files_have_every_figure_and_the_busiest_rasters(trace: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert main(["popularity", trace, "--time-unit", "s", "--output", str(folder), "--quiet"]) == 0
    capsys.readouterr()
    drawn = {path.stem for path in folder.glob("*.png")}
    assert drawn == set(figures.names("popularity")) - {"model_breadth"}
    tables = {path.stem for path in folder.glob("*.csv")}
    assert {"models", "users", "concentration", "zipf", "rasters", "user_access", "model_access"} <= tables


def test_a_trace_without_users_has_no_rasters(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "timestamp,input_tokens,output_tokens,model\n" + "\n".join(f"{1_700_000_000 + row},1,1,m" for row in range(30))
    )
    folder = tmp_path / "figures"
    assert main(["popularity", str(path), "--figures", str(folder)]) == 0
    captured = capsys.readouterr()
    assert "Figure user_access is not drawn: no user is chosen" in captured.err
    assert "The trace names no user" in captured.out
    assert main(["popularity", str(path), "--model-rank", "1"]) == 4
    assert "popularity --model-rank needs the column 'user'" in capsys.readouterr().err


def test_a_trace_without_models_and_users_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000,1,1\n")
    assert main(["popularity", str(path)]) == 4
    assert "popularity needs the column 'user' or 'model', and the trace has neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--user-rank", "4"], "--user-rank 4: there is no user of that rank"),
        (["--model-rank", "3"], "--model-rank 3: there is no model of that rank"),
        ([argument for rank in range(1, 6) for argument in ("--user-rank", str(rank))], "--user-rank: 5 rasters in one figure"),
    ],
)
def test_who_is_not_there_is_a_usage_error(trace: str, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["popularity", trace, "--time-unit", "s", *options]) == 2
    assert message in capsys.readouterr().err
