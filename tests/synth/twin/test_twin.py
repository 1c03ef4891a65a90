"""Twins of generated and of real traces: what they have of their original, and what not."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from llmtrace.cli import main
from llmtrace.commands.twin import Twin, fidelity_file, make_twin
from llmtrace.errors import InputError, OutputError, UsageError
from llmtrace.synth.twin.fidelity import distances
from llmtrace.synth.twin.portrait import portrait
from llmtrace.trace import open_trace
from tests.synth.twin.conftest import study, twin_of

if TYPE_CHECKING:
    from pathlib import Path

IDENTIFIERS = ("user", "model", "instance", "session")


def table(path: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_parquet(path)
    return path


def bare(path: Path, rows: int = 2000) -> Path:
    """An original with the three required columns alone."""
    times = [datetime(2025, 1, 1) + timedelta(seconds=3 * place + place % 7) for place in range(rows)]
    tokens = [place * 37 % 500 + 10 for place in range(rows)]
    return table(path, timestamp=times, input_tokens=tokens, output_tokens=tokens[::-1])


def told(twin: Path) -> dict[str, Any]:
    return dict(json.loads(fidelity_file(twin).read_text()))


def test_it_has_the_columns_of_its_original(month: Path, month_twin: Path) -> None:
    original, twin = pl.read_parquet(month), pl.read_parquet(month_twin)
    assert twin.columns == original.columns
    assert twin.schema == original.schema
    assert twin.height == original.height
    assert twin["timestamp"].is_sorted()


def test_it_says_that_nobody_sent_it(month_twin: Path) -> None:
    metadata = pq.read_metadata(month_twin).metadata
    assert metadata[b"llmtrace.synthetic"] == b"true"
    assert metadata[b"llmtrace.clock"] == b"utc"


def test_no_row_is_the_originals(month: Path, month_twin: Path) -> None:
    original, twin = pl.read_parquet(month), pl.read_parquet(month_twin)
    keys = ["timestamp", "input_tokens", "output_tokens"]
    assert original.join(twin, on=keys, how="semi", nulls_equal=True).height == 0


def test_no_name_of_the_original_is_in_it(month: Path, month_twin: Path) -> None:
    original, twin = pl.read_parquet(month), pl.read_parquet(month_twin)
    for name in IDENTIFIERS:
        assert set(original[name].drop_nulls()) & set(twin[name].drop_nulls()) == set()
        assert twin[name].n_unique() > 1


def test_nulls_and_words_are_as_frequent(month: Path, month_twin: Path) -> None:
    original, twin = pl.read_parquet(month), pl.read_parquet(month_twin)
    for name in original.columns:
        if name == "block_hashes":
            continue
        assert twin[name].null_count() == pytest.approx(original[name].null_count(), abs=0.03 * original.height)
    for name in ("endpoint", "status", "stream"):
        one, other = (dict(frame[name].value_counts().iter_rows()) for frame in (original, twin))
        assert set(one) == set(other)
        assert other == pytest.approx(one, abs=0.03 * original.height)


def test_cached_tokens_begin_to_be_logged_when_they_did(month: Path, month_twin: Path) -> None:
    first = [pl.read_parquet(path).drop_nulls("cached_tokens")["timestamp"].min() for path in (month, month_twin)]
    assert abs(first[0] - first[1]) < timedelta(days=2)  # type: ignore[operator,arg-type]


def test_cached_tokens_are_whole_blocks_within_the_input(month_twin: Path) -> None:
    logged = pl.read_parquet(month_twin).drop_nulls("cached_tokens")
    assert logged.height > 1000
    assert (logged["cached_tokens"] <= logged["input_tokens"]).all()
    assert (logged["cached_tokens"] % 16 == 0).all()


def test_sessions_grow_and_are_one_users(month_twin: Path) -> None:
    twin = pl.read_parquet(month_twin)
    for one in twin.filter(pl.len().over("session") > 3).partition_by("session")[:200]:
        assert one["turn"].to_list() == list(range(one.height))
        assert {one[name].drop_nulls().n_unique() for name in ("user", "model", "instance")} == {1}
        assert one["timestamp"].is_sorted()
    before = pl.col("input_tokens").shift(1) + pl.col("output_tokens").shift(1)
    grown = twin.select((pl.col("input_tokens") >= before).over("session")).to_series().drop_nulls()
    assert grown.mean() > 0.95  # type: ignore[operator]


def test_a_turn_begins_with_the_blocks_of_the_turn_before(month_twin: Path) -> None:
    twin = pl.read_parquet(month_twin).filter(pl.col("input_tokens").is_not_null())
    pairs = 0
    for one in twin.filter(pl.len().over("session") > 3).partition_by("session")[:100]:
        chains, lengths = one["block_hashes"].to_list(), one["input_tokens"].to_list()
        for place in range(1, one.height):
            if lengths[place] >= lengths[place - 1]:
                pairs += chains[place][: len(chains[place - 1])] == chains[place - 1]
    assert pairs > 200


def test_fidelity_of_a_trace_with_every_column(month_twin: Path) -> None:
    """The tolerances that `docs/generate.md` states."""
    found = told(month_twin)
    assert found["ks"]["input_tokens"] < 0.05
    assert found["ks"]["output_tokens"] < 0.03
    assert found["ks"]["gap_us"] < 0.06
    assert found["ks"]["hit_ratio"] < 0.06
    scalars = found["scalars"]
    assert set(scalars) == {"stats", "burstiness", "reuse-time", "hit-dist"}
    for name in ("requests", "failed_requests", "sessions", "users", "input_tokens", "output_tokens"):
        assert scalars["stats"][name]["ratio"] == pytest.approx(1, abs=0.15), name
    assert scalars["stats"]["cached_tokens"]["ratio"] == pytest.approx(1, abs=0.25)
    assert scalars["burstiness"]["cv"]["ratio"] == pytest.approx(1, abs=0.2)
    assert scalars["burstiness"]["lag1_spearman"]["twin"] == pytest.approx(
        scalars["burstiness"]["lag1_spearman"]["original"], abs=0.1
    )
    for name in ("within_100ms_all", "within_10s_all", "within_15min_all"):
        assert scalars["reuse-time"][name]["twin"] == pytest.approx(scalars["reuse-time"][name]["original"], abs=0.06), name
    for name in ("token_hit_ratio", "mean_request_hit_ratio", "share_zero"):
        assert scalars["hit-dist"][name]["twin"] == pytest.approx(scalars["hit-dist"][name]["original"], abs=0.06), name


def test_the_distances_are_those_of_a_plain_comparison(month: Path, month_twin: Path) -> None:
    """Outputs below 64 have a bin of their own, so the largest difference of cumulative shares there is exact."""
    one, other = (pl.read_parquet(path)["output_tokens"].drop_nulls() for path in (month, month_twin))
    shares = [[(tokens <= value).to_numpy().mean() for value in range(64)] for tokens in (one, other)]
    plain = max(abs(mine - its) for mine, its in zip(*shares, strict=True))
    found = distances(study(month), study(month_twin))["output_tokens"]
    assert found is not None
    assert found >= plain - 1e-12
    assert distances(study(month), study(month))["output_tokens"] == 0


def test_each_model_keeps_its_share_rate_and_lengths(month: Path, month_twin: Path) -> None:
    original, twin = pl.read_parquet(month), pl.read_parquet(month_twin)
    one, other = (frame["model"].value_counts(sort=True).head(3) for frame in (original, twin))
    assert other["count"].to_list() == pytest.approx(one["count"].to_list(), rel=0.01)
    for name, same in zip(one["model"], other["model"], strict=True):
        mine, its = original.filter(model=name), twin.filter(model=same)
        assert its["output_tokens"].median() == pytest.approx(mine["output_tokens"].median(), rel=0.15)
        shares = [
            frame.group_by(pl.col("timestamp").dt.truncate("5d")).len().sort("timestamp")["len"].to_list()
            for frame in (mine, its)
        ]
        assert shares[1] == pytest.approx(shares[0], rel=0.25, abs=450)


def test_the_same_seed_gives_the_same_twin_whatever_the_threads(month: Path, tmp_path: Path) -> None:
    one, same, other = (
        twin_of(month, tmp_path / f"{place}.parquet", threads=threads, seed=seed)
        for place, (threads, seed) in enumerate([(1, 3), (3, 3), (1, 4)])
    )
    assert one.equals(same)
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()
    assert not one.equals(other)


@pytest.mark.parametrize("requests", [1, 500, 90_000])
def test_it_has_as_many_requests_as_asked_for(month: Path, tmp_path: Path, requests: int) -> None:
    twin = twin_of(month, tmp_path / "twin.parquet", requests=requests)
    assert twin.height == requests
    assert twin["timestamp"].is_sorted()
    assert twin["session"].n_unique() <= requests


def test_rare_models_are_merged(tmp_path: Path) -> None:
    rows = 300
    users = [f"user {place % 40}" for place in range(rows)]
    models = ["common"] * 200 + ["usual"] * 80 + ["rare one"] * 12 + ["rare two"] * 8
    users[280:] = ["user 1"] * 12 + ["user 2", "user 3", "user 4", "user 5"] * 2
    times = [datetime(2025, 1, 1) + timedelta(seconds=place) for place in range(rows)]
    path = table(
        tmp_path / "t.parquet", timestamp=times, input_tokens=[9] * rows, output_tokens=[9] * rows, user=users, model=models
    )
    twin = twin_of(path, tmp_path / "five.parquet")
    assert sorted(twin["model"].value_counts().rows()) == [("model-1", 200), ("model-2", 80), ("other", 20)]
    few = twin_of(path, tmp_path / "six.parquet", min_users=6)
    assert sorted(few["model"].value_counts().rows()) == [("model-1", 200), ("model-2", 100)], "five users are too few for others"
    every = twin_of(path, tmp_path / "one.parquet", min_users=1)
    assert sorted(every["model"].value_counts()["count"]) == [8, 12, 80, 200]


def test_rare_words_are_merged(tmp_path: Path) -> None:
    rows = 400
    status = ["ok"] * 300 + ["timeout"] * 90 + ["secret of one user"] * 10
    endpoint = ["chat"] * 390 + ["/v1/one-customer"] * 10
    users = [f"user {place % 40}" for place in range(390)] + ["user 1"] * 10
    times = [datetime(2025, 1, 1) + timedelta(seconds=place) for place in range(rows)]
    path = table(
        tmp_path / "t.parquet", timestamp=times, input_tokens=[9] * rows, output_tokens=[9] * rows, user=users, status=status,
        endpoint=endpoint,
    )  # fmt: skip
    twin = twin_of(path, tmp_path / "twin.parquet")
    assert set(twin["status"]) <= {"ok", "timeout", "error"}
    assert set(twin["endpoint"]) <= {"chat", "other"}
    words = {mark.endpoint for mark in portrait(study(path)).marks} | {mark.status for mark in portrait(study(path)).marks}
    assert words == {"chat", "other", "ok", "timeout", "error"}


def test_users_are_carried_in_groups(month: Path) -> None:
    carried = portrait(study(month), min_users=7).pools.models_of
    assert all(len(set(carried[first : first + 7])) == 1 for first in range(0, carried.size - 14, 7))


def test_three_columns_are_enough(tmp_path: Path) -> None:
    original = bare(tmp_path / "bare.parquet")
    twin = twin_of(original, tmp_path / "twin.parquet")
    assert twin.columns == ["timestamp", "input_tokens", "output_tokens"]
    found = told(tmp_path / "twin.parquet")
    assert set(found["scalars"]) == {"stats", "burstiness"}
    assert found["ks"]["input_tokens"] < 0.05
    assert found["ks"]["hit_ratio"] is None


def test_a_trace_without_requests_has_a_twin_without_requests(month: Path, tmp_path: Path) -> None:
    made = tmp_path / "twin.parquet"
    assert main(["generate", str(made), "--like", str(month), "--where", "input_tokens < 0"]) == 0
    assert pl.read_parquet(made).height == 0
    assert told(made)["requests"] == {"original": 0, "twin": 0}


def test_a_source_without_rows_is_an_error(tmp_path: Path) -> None:
    original = bare(tmp_path / "bare.parquet", rows=0)
    with pytest.raises(InputError, match="there is no row"):
        make_twin(open_trace(str(original)), Twin(tmp_path / "twin", quiet=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare.parquet"]


def test_rare_lengths_stay_what_they_are(tmp_path: Path) -> None:
    """Too few for a distribution of their own within their bin, they lie anywhere in it, and nowhere else."""
    rows = 3000
    times = [datetime(2025, 1, 1) + timedelta(seconds=place) for place in range(rows)]
    answers = [20_000 if place % 1000 == 0 else 10 for place in range(rows)]
    path = table(tmp_path / "t.parquet", timestamp=times, input_tokens=[50] * rows, output_tokens=answers)
    long = twin_of(path, tmp_path / "twin.parquet", requests=60_000)["output_tokens"]
    assert set(long.filter(long < 1000)) == {10}
    assert long.filter(long >= 1000).is_between(18_432, 20_479).all()
    assert (long >= 1000).mean() == pytest.approx(1 / 1000, rel=0.5)


def test_absurd_values_are_taken_as_large_ones(tmp_path: Path) -> None:
    rows = 60
    times = [datetime(2025, 1, 1) + timedelta(seconds=place) for place in range(rows)]
    path = table(
        tmp_path / "t.parquet", timestamp=times, input_tokens=[2**62] * rows, output_tokens=[2**62, 0, 3] * 20,
        cached_tokens=[2**62, 0, None] * 20, ttft_s=[float("inf"), float("nan"), 0.5] * 20,
        duration_s=[float("inf"), -1.0, None] * 20,
    )  # fmt: skip
    twin = twin_of(path, tmp_path / "twin.parquet")
    assert twin.height == rows
    assert 2**39 < twin["input_tokens"].min() <= twin["input_tokens"].max() < 2**42  # type: ignore[operator]
    assert (twin["cached_tokens"].drop_nulls() <= twin.drop_nulls("cached_tokens")["input_tokens"]).all()
    assert twin["ttft_s"].drop_nulls().is_finite().all()


def test_one_request_and_all_at_once(tmp_path: Path) -> None:
    assert twin_of(bare(tmp_path / "one.parquet", rows=1), tmp_path / "a.parquet").height == 1
    same = table(
        tmp_path / "same.parquet", timestamp=[datetime(2025, 1, 1)] * 100, input_tokens=[5] * 100, output_tokens=[6] * 100
    )
    twin = twin_of(same, tmp_path / "b.parquet")
    assert set(twin.rows()) == {(datetime(2025, 1, 1), 5, 6)}


def test_a_relative_clock_stays_one_and_keeps_its_ticks(tmp_path: Path, real_traces: Path) -> None:
    made = tmp_path / "twin.parquet"
    make_twin(open_trace(str(real_traces / "mooncake" / "conversation_trace.jsonl")), Twin(made, quiet=True))
    assert pq.read_metadata(made).metadata[b"llmtrace.clock"] == b"relative"
    twin = pl.read_parquet(made)
    assert (twin["timestamp"].dt.epoch("us") % 1000 == 0).all()
    found = told(made)
    assert found["scalars"]["burstiness"]["tie_share"]["twin"] == pytest.approx(0.902, abs=0.02)
    assert found["scalars"]["burstiness"]["cv"]["ratio"] == pytest.approx(1, abs=0.15)
    assert found["ks"]["input_tokens"] < 0.03
    assert found["ks"]["output_tokens"] < 0.03


@pytest.mark.parametrize("file", ["azure_2023/AzureLLMInferenceTrace_code.csv", "azure_2023/azure2023_conv_1200.csv"])
def test_fidelity_of_real_traces(file: str, tmp_path: Path, real_traces: Path) -> None:
    made = tmp_path / "twin.parquet"
    make_twin(open_trace(str(real_traces / file)), Twin(made, quiet=True))
    found = told(made)
    assert found["ks"]["input_tokens"] < 0.05
    assert found["ks"]["output_tokens"] < 0.05
    assert found["ks"]["gap_us"] < 0.13
    assert found["scalars"]["burstiness"]["cv"]["ratio"] == pytest.approx(1, abs=0.25)
    for name in ("input_tokens", "output_tokens"):
        assert found["scalars"]["stats"][name]["ratio"] == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    "file", ["burstgpt/burstgpt_v1_head.csv", "burstgpt/burstgpt_v3_head.csv", "chutes/chutes_excerpt_36rows.csv"]
)
def test_the_smallest_traces_have_twins(file: str, tmp_path: Path, real_traces: Path) -> None:
    made = tmp_path / "twin.parquet"
    trace = open_trace(str(real_traces / file))
    written = make_twin(trace, Twin(made, quiet=True))
    twin = open_trace(str(made))
    assert (written, twin.columns, twin.clock) == (pl.read_parquet(made).height, trace.columns, trace.clock)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--min-users", "0"], "--min-users 0"),
        (["--requests", "0"], "--requests 0"),
        (["--seed", "-1"], "--seed -1"),
        (["--days", "3"], "--like takes days"),
        (["--layout", "csv"], "--like takes days"),
    ],
)
def test_a_wrong_option_is_told_in_two_lines(
    options: list[str], named: str, month: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(tmp_path / "twin"), "--like", str(month), *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert named in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_reading_options_need_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path / "twin"), "--min-users", "3"]) == 2
    assert "without --like" in capsys.readouterr().err


def test_an_interrupted_comparison_leaves_no_twin(month: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llmtrace.synth.twin.fidelity.distances", interrupted)
    for name in ("folder", "file.parquet"):
        with pytest.raises(KeyboardInterrupt):
            make_twin(open_trace(str(month)), Twin(tmp_path / name, requests=10, quiet=True))
    assert not list(tmp_path.iterdir())


def test_nothing_in_the_way_is_touched(month: Path, tmp_path: Path) -> None:
    made = tmp_path / "twin.parquet"
    report = tmp_path / "twin.fidelity.json"
    report.write_text("mine")
    with pytest.raises(OutputError, match=r"twin.fidelity.json exists"):
        make_twin(open_trace(str(month)), Twin(made, quiet=True))
    assert not made.exists()
    assert report.read_text() == "mine"
    make_twin(open_trace(str(month)), Twin(made, requests=10, force=True, quiet=True))
    assert told(made)["requests"]["twin"] == 10
    report.unlink()
    with pytest.raises(OutputError, match=r"twin.parquet exists"):
        make_twin(open_trace(str(month)), Twin(made, quiet=True, requests=10))


def test_it_is_not_written_over_its_original(tmp_path: Path) -> None:
    original = bare(tmp_path / "bare.parquet")
    with pytest.raises(UsageError, match="is the source itself"):
        make_twin(open_trace(str(original)), Twin(original, force=True, quiet=True))
