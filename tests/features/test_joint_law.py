"""Initial laws that share one draw."""

import torch

from manifoldgp.features.joint_law import JointLaw


def pair(generator, count):
    first = torch.randn((count, 2), generator=generator, dtype=torch.float64)
    return {"first": first, "second": -first}


def test_one_pass_sees_one_draw_in_any_order():
    joint = JointLaw(pair)
    first, second = joint.law("first"), joint.law("second")
    g = torch.Generator().manual_seed(0)
    for laws in [(first, second), (second, first), (first, second)]:
        a, b = (law(g, 3) for law in laws)
        assert torch.equal(a, -b)
        assert a.shape == (3, 2)


def test_each_pass_is_a_new_draw_and_the_generator_decides():
    joint = JointLaw(pair)
    first, second = joint.law("first"), joint.law("second")
    draws = []
    for seed in (0, 0, 1):
        g = torch.Generator().manual_seed(seed)
        draws.append(torch.stack([torch.stack([first(g, 3), second(g, 3)]) for _ in range(2)]))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0][0], draws[0][1])


def test_what_an_unfinished_pass_left_is_not_mixed_into_the_next():
    joint = JointLaw(pair)
    first, second = joint.law("first"), joint.law("second")
    first(torch.Generator().manual_seed(0), 3)
    g = torch.Generator().manual_seed(1)
    b, a = second(g, 3), first(g, 3)
    assert torch.equal(a, -b)
    assert torch.equal(a, pair(torch.Generator().manual_seed(1), 3)["first"])
    first(g, 3)
    assert second(g, 5).shape == (5, 2)
