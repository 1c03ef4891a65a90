"""Prefill and decode on instances of their own: two replays of the same requests, and what goes over the link between them.

A policy chooses the prefill instance when the request arrives; it computes the prompt, is done with the first token, and keeps
the prompt's cache. Then the whole cache of the prompt goes to a decode instance, chosen by load among those, which has the
request until it is complete. What an answer adds is not given back to prefill instances, so that it is computed again if a later
prompt has it. As in Splitwise (Patel et al., ISCA 2024), DistServe (Zhong et al., OSDI 2024) and Mooncake (Qin et al., FAST
2025).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llmtrace.replay.route.cell import Cell, run
from llmtrace.replay.route.rules import Rule
from llmtrace.replay.route.stream import Requests, prepare

if TYPE_CHECKING:
    from llmtrace.replay.route.cell import Outcome
    from llmtrace.replay.route.gather import Gathered
    from llmtrace.replay.route.stream import Load, Stream

__all__ = ["decoded", "prefilled"]


def prefilled(gathered: Gathered, load: Load) -> Stream:
    """The requests as prefill instances have them: without answers, and complete with the first token."""
    asked = gathered.requests
    return prepare(replace(asked, complete_us=gathered.first_token_us, output_tokens=np.zeros_like(asked.output_tokens)), load)


def decoded(gathered: Gathered, load: Load, instances: int, seed: int) -> tuple[Outcome, Stream]:
    """What becomes of the requests on decode instances, which take them by load at their first tokens; and the stream there."""
    asked, order = gathered.requests, np.argsort(gathered.first_token_us, kind="stable")
    handed = Requests(
        gathered.first_token_us[order],
        asked.complete_us[order],
        asked.session[order],
        asked.user[order],
        asked.input_tokens[order],
        asked.output_tokens[order],
    )
    stream = prepare(handed, load)
    return run(stream, Cell(Rule("load-first"), instances, 0, seed=seed)), stream
