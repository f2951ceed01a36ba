"""What running a run again tells before it replaces results; `test_scoring_again` has the rest."""

from pathlib import Path

from mmconv.report.changed_inputs import describe_changes
from mmconv.run_folder.saved_run import read_manifest


def test_options_of_other_defaults_are_named_and_new_ones_not(
    copies: tuple[Path, Path],
) -> None:
    folder, _ = copies
    saved = read_manifest(folder)
    today = saved.model_copy(update={"options": {**saved.options, "new": 1}})
    assert describe_changes(folder, today) == ()
    today = saved.model_copy(update={"options": {**saved.options, "max_tokens": 77}})
    assert describe_changes(folder, today) == (
        f"{folder}: option max_tokens was 1024 and is 77 now. The results there will be replaced.",
    )
