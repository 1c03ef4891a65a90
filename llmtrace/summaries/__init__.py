"""Mergeable summaries: one per module, each usable from any analysis.

A summary is two plain functions. `summary` says what it needs of a part and how it summarises it (a `Summary`; `plans` turns
several into lazy frames that share one pass over the part), or where Polars' expressions are enough, `plan` gives the lazy frame
itself. `combine` turns the summaries of neighbouring parts, in order of time, into the summary of the whole. The laws, which
every summary keeps:

- cutting the requests anywhere in time and combining gives the summary of the whole, to the last bit;
- regrouping the combines changes nothing;
- the summary of an empty part is neutral;
- inputs are not changed, and a summary survives Parquet.

Value columns are Int64 and never negative; null is "not known" and is left out, never taken as zero. Keys are 64-bit hashes
(`keys`), so that kernels meet numbers only.
"""
