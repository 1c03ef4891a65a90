from __future__ import annotations

import polars as pl

from llmtrace.summaries.summary import Summary, plans, tables_of


def test_summaries_that_are_collected_together_see_one_whole_part_once() -> None:
    calls: list[tuple[int, int, list[str]]] = []

    def first_row(frame: pl.DataFrame) -> pl.DataFrame:
        calls.append((frame.height, frame.n_chunks(), frame.columns))
        return frame.select("x").head(1)

    def nothing(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select("y").clear()

    summaries = {
        "one": Summary({"x": pl.col("x")}, {"x": pl.Int64()}, first_row),
        "none": Summary({"y": pl.col("x") + 1}, {"y": pl.Int64()}, nothing),
    }
    part = pl.concat([pl.DataFrame({"x": [7, 8]}), pl.DataFrame({"x": [9]})], rechunk=False)
    one, none = pl.collect_all(plans(part.lazy(), summaries).values())
    assert calls == [(3, 1, ["x", "y"])]
    assert one.rows() == [(7,)]
    assert none.height == 0
    assert none.schema == {"y": pl.Int64}


def test_tables_of_one_function_are_made_once_from_a_part_in_its_chunks() -> None:
    calls: list[tuple[int, int]] = []

    def summarise(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
        calls.append((frame.height, frame.n_chunks()))
        return {"sum": frame.select(pl.col("x").sum()), "rows": pl.DataFrame({"rows": [frame.height]})}

    part = pl.concat([pl.DataFrame({"x": [7, 8]}), pl.DataFrame({"x": [9]})], rechunk=False)
    made = tables_of(part.lazy(), {"sum": {"x": pl.Int64()}, "rows": {"rows": pl.Int64()}}, summarise)
    assert list(made) == ["sum", "rows"]
    total, rows = pl.collect_all(made.values())
    assert calls == [(3, 2)]
    assert (total.item(), rows.item()) == (24, 3)
