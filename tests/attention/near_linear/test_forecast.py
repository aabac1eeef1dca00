"""The sample of a forecast contains the first queries of a causal call, with all of their tuples."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from separatrix.attention.call import Call, check_call
from separatrix.attention.near_linear.analysis import analyse, deviation, squares_of
from separatrix.attention.near_linear.forecast import draw_parts
from tests.attention.near_linear.test_deviation import draw, literal


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("order", "offset"), [(2, 0), (2, 3), (2, -2), (3, 0), (4, -1)])
def test_the_first_queries_have_all_of_their_tuples(order, offset, masked):
    query, *sets = draw(order, 9, 3, 2)
    keys, values = sets[: order - 1], sets[order - 1 :]
    masks = [torch.arange(9) % 4 != m for m in range(order - 1)] if masked else None
    call = check_call(query, keys, values, is_causal=True, query_offset=offset, key_masks=masks, scale=0.4)
    analysis = analyse(call)
    away = deviation(call, analysis.values)
    part = draw_parts(analysis)[1]
    at = part.queries[0]
    assert int(at[0]) == max(-offset, 0)
    s, v, attended = literal(call)
    s, attended = s[:, at], attended[:, at]
    totals = (s.exp() * attended).sum(-1)
    seen = totals > 0
    for moment in (0, 2, 4):
        powers = (s**moment * attended).sum(-1)
        assert torch.allclose(part.mean_power(moment)[seen], (powers / totals)[seen])
        assert (part.mean_power(moment)[~seen] == 0).all()
    assert torch.allclose(part.output()[seen], ((s.exp() * attended) @ v / totals.unsqueeze(-1))[seen])
    _, largest, _ = literal(replace(call, values=squares_of(call, away, 1)))
    # With several columns: the largest of the columns' means over the tuples of the part, including masked and later
    # tokens.
    columns, widest = torch.ones(2, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    for m, (value, index) in enumerate(zip(call.values, part._tuples, strict=True)):
        chosen = value[0, index[0]]
        if masked:
            chosen = torch.where(call.masks[m][0, index[0]].unsqueeze(-1), chosen, 0.0)
        deviations = ((chosen - away.centre[0]) / away.scales[m]) ** 2
        columns, widest = columns * deviations, widest * deviations.amax(-1)
    share = columns.mean(0).max() / widest.mean()
    for moment in (0, 4):
        expected = ((s**moment * attended) @ largest).squeeze(-1) / totals
        assert torch.allclose(part.weighted_squares(moment, 1, away)[seen], expected[seen], rtol=1e-5)
        assert torch.allclose(part.weighted_squares(moment, 2, away)[seen], share * expected[seen], rtol=1e-5)


def count_parts(call: Call) -> int:
    return len(draw_parts(analyse(call)))


def test_samples_without_first_queries_have_one_part():
    query, key, value = draw(2, 9, 3, 2)
    assert count_parts(check_call(query, key, value)) == 1
    late = check_call(query, key.repeat(20, 1), value.repeat(20, 1), is_causal=True, query_offset=171)
    assert count_parts(late) == 1
