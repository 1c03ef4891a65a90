"""One sentence per number of `balance`, with its unit: the definitions that its result carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmtrace.analyses.balance.minutes import MOST_INSTANCES
from llmtrace.analyses.balance.models import MOST_MODELS
from llmtrace.analyses.balance.regimes import HIGH_AT, LOW_AT, MIXED_AT
from llmtrace.analyses.latency.definitions import DEFINITIONS as LATENCY
from llmtrace.summaries.fleet import LEAST_INSTANCES, LEAST_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmtrace.analyses.balance.analysis import Balance

__all__ = ["HEAT_MAP", "definitions"]

_VALID = f"valid minutes, those with at least {LEAST_INSTANCES} active instances, {LEAST_REQUESTS} requests and any tokens"
_MAX_MEAN = "tokens of the instance with most over the mean of active instances, 1 if even"
_JAIN = "Jain's index (Σx)² / (n·Σx²) of the tokens of n active instances, 1 if even and 1/n if one has all"
_CV = "standard deviation of the tokens of active instances over their mean, of the population, 0 if even"
_TOKENS = "input and output tokens of the requests that begin, failed ones left out"
_TIER = f"high from a token hit ratio of {HIGH_AT:g} on, low up to {LOW_AT:g}, medium between"

_COUNTS = {
    "requests": "Number of requests, failed ones included.",
    "failed_requests": 'Number of requests whose status is known and not "ok"; null where no status is known.',
    "placed_requests": "Number of requests whose instance is known: all that follows is of these.",
    "instances": "Number of distinct instances.",
    "minutes": "Minutes of the clock in which a request begins on a known instance.",
    "valid_minutes": f"Number of {_VALID}.",
    "active_instances_p50": "Median over these minutes of active instances, those on which a request begins in the minute.",
    "active_instances_max": "Most active instances in a minute.",
    "imbalance_max_mean": f"Mean over {_VALID}: {_MAX_MEAN}.",
    "jain": f"Mean over valid minutes: {_JAIN}.",
    "cv": f"Mean over valid minutes: {_CV}.",
    "models": "Number of distinct models of requests on known instances; requests that name none count as one of their own.",
    **{
        f"within_model_{name}": f"Mean over models and {_VALID}, of the instances that serve the model: {how}."
        for name, how in (("imbalance_max_mean", _MAX_MEAN), ("jain", _JAIN), ("cv", _CV))
    },
    "total_imbalance_max_mean": "Over the whole trace: tokens of the instance with most over the mean of instances.",
    "total_jain": "Over the whole trace: Jain's index of the tokens of all instances.",
    "total_cv": "Over the whole trace: standard deviation of the tokens of instances over their mean.",
    "busiest_day_time": "Start of the 24 hours with the highest mean of active instances, minutes without requests as 0.",
    "busiest_day_instances": "That mean.",
    "regime_users": "Users with enough requests in their busiest clock hour, of which cached tokens are logged (Figure 19).",
    **{f"{tier}_tier_users": f"Those of the {tier} tier in that hour: {_TIER}." for tier in ("high", "medium", "low")},
    "mixed_users": f"Those with at least {MIXED_AT:g} of that hour's requests on instances of the high tier, and of the low one.",
}

_LOAD = {
    "time": "Start of the clock hour; all from the first to the last one with requests, unless these are too many.",
    "requests": "Requests that begin in it on known instances (Figure 17a).",
    "instances": "Median over its minutes with requests of active instances (Figure 17b).",
    "max_mean": f"Mean over its valid minutes: {_MAX_MEAN} (Figure 17c).",
    "jain": f"Mean over its valid minutes: {_JAIN}.",
    "cv": f"Mean over its valid minutes: {_CV}.",
    "tokens": f"Their tokens: {_TOKENS}.",
    "tokens_per_s": "Those over 3,600 s.",
    "minutes": "Minutes with requests.",
    "valid_minutes": f"Number of {_VALID}.",
}
_BY_MINUTE = {
    "time": "Start of the minute; minutes without requests have no row.",
    "requests": "Requests that begin in it on known instances.",
    "instances": "Active instances: those on which a request begins.",
    "tokens": f"{_TOKENS[0].upper()}{_TOKENS[1:]}.",
    **{
        name: f"{how[0].upper()}{how[1:]}; null unless valid."
        for name, how in (("max_mean", _MAX_MEAN), ("jain", _JAIN), ("cv", _CV))
    },
}
_MODELS = {
    "model": f"The model, null where not known; the {MOST_MODELS:,} with most tokens.",
    "requests": "Requests to it that begin on known instances.",
    "tokens": f"{_TOKENS[0].upper()}{_TOKENS[1:]}.",
    "minutes": "Minutes in which it has requests.",
    "active_instances": "Mean over these of the instances on which they begin.",
    "valid_minutes": f"Number of {_VALID}, of this model alone.",
    "max_mean": f"Mean over these: {_MAX_MEAN}.",
    "jain": f"Mean over these: {_JAIN}.",
    "cv": f"Mean over these: {_CV}.",
}
_INSTANCES = {
    "instance": f"The instance; the {MOST_INSTANCES:,} with most tokens.",
    "requests": "Requests that begin on it.",
    "tokens": f"{_TOKENS[0].upper()}{_TOKENS[1:]}.",
    "tokens_ratio": "Those over the tokens of all instances, 0 to 1.",
}
_REGIMES = {
    "pick": "Of the users of the high tier top, with most requests in the hour, or min, with fewest.",
    "user": "The user.",
    "time": "Start of the user's busiest clock hour; of several the earliest.",
    "instance": "An instance that served it then; in order of first requests.",
    "requests": "The user's requests there.",
    "requests_ratio": "Those over all of the user's requests in the hour, 0 to 1.",
    "input_tokens": "Input tokens of those whose cached tokens are logged.",
    "cached_tokens": "Cached ones among these.",
    "token_hit_ratio": "Cached over input tokens, 0 to 1; null where none are logged.",
    "tier": f"Tier of the instance for this user: {_TIER}.",
}
_REGIME_USERS = {
    "user": "The user; those with most requests in the hour first.",
    "time": "Start of the user's busiest clock hour; of several the earliest.",
    "requests": "The user's requests in it, on known instances.",
    "instances": "Instances that served them.",
    "token_hit_ratio": "Cached over input tokens of the requests whose cached tokens are logged, 0 to 1.",
    "tier": f"Tier of the user: {_TIER}.",
    **{
        f"{tier}_ratio": f"Share of the requests that went to instances of the {tier} tier, 0 to 1."
        for tier in ("high", "medium", "low")
    },
}
HEAT_MAP: Mapping[str, str] = {
    **{
        f"heat_map_p{percent}_requests": f"{percent}th percentile of the requests of the rows of heat_map." for percent in (5, 99)
    },
    "heat_map.row": "Place of the instance, from 1, in the order of first requests that day.",
    "heat_map.instance": "The instance.",
    "heat_map.time": "Start of the minute, counted from the start of the day; minutes without requests have no row.",
    "heat_map.requests": "Requests that begin on the instance in the minute.",
}


def definitions(analysis: Balance) -> dict[str, str]:
    """Scalar, or `table.column`, to the sentence that defines it."""
    tables = {
        "load": _LOAD,
        "load_by_minute": _BY_MINUTE,
        "instances": _INSTANCES,
        "by_model": {**_MODELS, **_copies(analysis)},
        "replication_by_load": _by_load(analysis),
        "replication_by_window": _by_window(analysis),
        "regimes": _REGIMES,
        "regime_users": _REGIME_USERS,
    }
    latency = {name: text for name, text in LATENCY.items() if name.startswith(("load_ttft.", "load_decode.", "latencies."))}
    return {
        **_COUNTS,
        "windows": f"Windows of {analysis.width} in which a known key has requests.",
        **_copies(analysis),
        **{f"{table}.{column}": sentence for table, columns in tables.items() for column, sentence in columns.items()},
        **latency,
    }


def _copies(analysis: Balance) -> dict[str, str]:
    """The numbers on copies of contexts, of whatever keys and windows they are."""
    pool = f"the instances of its model that are active in the window of {analysis.width}"
    return {
        "keys": f"Keys, each a known {analysis.by} with a model, counted in each window of {analysis.width} with their requests.",
        "instances_per_key": "Mean over keys and windows of the instances that serve the key in the window.",
        "scattered_instances_per_key": f"The same if each request went to any of {pool}: n·(1 - (1 - 1/n)^k) of n.",
        "new_instance_ratio": "Share of a key's requests after its first in the window that go to an instance new to it, 0 to 1.",
        "scattered_new_instance_ratio": "The same if requests were scattered so.",
        "replication": "Physical over logical tokens: of each key and window the largest request (input and output "
        "tokens) on each of its instances, over the largest on any; 1 if nothing is held twice.",
    }


def _by_load(analysis: Balance) -> dict[str, str]:
    return {
        "load_of": "Whose load: model, input and output tokens per second of all requests to the model in the window; instance, "
        "those over its active instances.",
        "load_from_tokens_per_s": "Lowest load of the band, in tokens per second.",
        "load_to_tokens_per_s": "Load from which on the next band counts; null where there is none.",
        "cells": f"Pairs of a model and a window of {analysis.width} with such a load and a known key.",
        "instances": "Active instances of these, summed.",
        "requests": "Requests of known keys in these.",
        **_copies(analysis),
    }


def _by_window(analysis: Balance) -> dict[str, str]:
    return {
        "time": f"Start of the window of {analysis.width}; windows without known keys have no row.",
        "instances": "Active instances, one that serves two models twice.",
        "requests": "Requests of known keys.",
        "tokens_per_s": "Input and output tokens of all requests on known instances, over the width of the window.",
        **_copies(analysis),
    }
