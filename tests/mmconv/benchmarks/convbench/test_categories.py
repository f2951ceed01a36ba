from mmconv.benchmarks.convbench.categories import CREATION, PERCEPTION, REASONING


def test_counts_are_those_of_the_figure_without_its_repeat() -> None:
    assert (len(PERCEPTION), len(REASONING), len(CREATION)) == (71, 63, 79)
    assert len({*PERCEPTION, *REASONING, *CREATION}) == 213


def test_names_hold_no_stray_blanks() -> None:
    for name in (*PERCEPTION, *REASONING, *CREATION):
        assert name == " ".join(name.split())
        assert "- " not in name
