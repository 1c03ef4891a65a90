"""How policies are written, and which weights a search keeps."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtrace.errors import UsageError
from llmtrace.replay.route.rules import POLICIES, Rule, defaults, parse
from llmtrace.replay.route.search import candidates, pareto, recommended


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stickyy", "--policy stickyy: there is no such policy"),
        ("", "--policy : there is no such policy"),
        ("sticky,sticky", "--policy sticky: the policy is given twice"),
        ("score:beta", "--policy score:beta: 'beta' is not NAME=NUMBER"),
        ("score:beta=much", "--policy score:beta=much: 'beta=much' is not NAME=NUMBER"),
        ("score:beta=1,beta=2", "--policy score:beta=1,beta=2: a parameter is given twice"),
        ("score:eta=1", "--policy score: there is no parameter 'eta'"),
        ("sticky:beta=1", "--policy sticky: there is no parameter 'beta'"),
        ("score:beta=-1", "--policy score: beta=-1 is not a number from zero up"),
        ("score:beta=nan", "--policy score: beta=nan is not a number from zero up"),
        ("score:beta=inf", "--policy score: beta=inf is not a number from zero up"),
        ("consistent-hash:bound=1", "--policy consistent-hash: bound=1 leaves no room for every request"),
    ],
)
def test_what_is_no_policy(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([text])
    assert caught.value.message == message
    assert caught.value.hint


def test_policies_are_listed_with_commas_or_again() -> None:
    rules = parse(["threshold:abs=8,rel=2,sticky", "score", "score:beta=2"])
    assert [rule.label for rule in rules] == ["threshold:abs=8,rel=2", "sticky", "score", "score:beta=2"]


def test_every_parameter_has_a_default() -> None:
    for policy in POLICIES:
        assert Rule(policy, tuple(defaults(policy).items())).policy == policy


def test_candidates_differ() -> None:
    labels = [rule.label for rule in candidates()]
    assert len(set(labels)) == len(labels)
    assert Rule("score", (("alpha", 0.0), ("beta", 1.0))) in candidates()


points = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.9]), st.sampled_from([None, 0.0, 0.2, 0.4, 2.0])), max_size=12)


@given(points)
def test_nothing_beats_the_front(points: list[tuple[float, float | None]]) -> None:
    table = pl.DataFrame(points, {"token_hit_ratio": pl.Float64, "imbalance_ratio": pl.Float64}, orient="row")
    known = [(hit, uneven) for hit, uneven in points if uneven is not None]

    def is_beaten(hit: float, uneven: float) -> bool:
        return any(more >= hit and less <= uneven and (more > hit or less < uneven) for more, less in known)

    expected = {(hit, uneven) for hit, uneven in known if not is_beaten(hit, uneven)}
    front = pareto(table).filter("is_on_front").select("token_hit_ratio", "imbalance_ratio").rows()
    assert len(front) == len(set(front))
    assert set(front) == expected


def test_the_most_even_of_those_that_give_up_little_is_recommended() -> None:
    table = pareto(pl.DataFrame({"token_hit_ratio": [0.5, 0.498, 0.4, 0.1], "imbalance_ratio": [0.9, 0.3, 0.2, 0.1]}))
    assert recommended(table)["imbalance_ratio"].to_list() == [0.3]
    assert recommended(table, 0.0)["imbalance_ratio"].to_list() == [0.9]
    assert recommended(table, 0.25)["imbalance_ratio"].to_list() == [0.2]
    assert recommended(table, 1.0)["imbalance_ratio"].to_list() == [0.1]
    assert recommended(table.clear()).is_empty()
