"""What a page is made of: sections with sentences, plots and tables, in a view of a run.

The template prints these values and decides nothing; a view of a benchmark fills them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from mmconv.core.types import Table
from mmconv.report.notes import ALIKE
from mmconv.report.page.grids import Grid
from mmconv.report.page.plots import Plot
from mmconv.report.page.samples.dialogues import Reader
from mmconv.run_folder.saved_run import FinishedRun

About: TypeAlias = Mapping[str, Mapping[str, str]]
"""Sample -> what its data say of it that no call shows (a caption, a reference), by name."""

NOTHING: About = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of the page; `folded` tables are shown when they are opened.

    `short` is its name in the bar at the top, for the sections that have a place there.
    """

    id: str
    title: str
    short: str = ""
    sentences: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    grids: tuple[Grid, ...] = ()
    maps: tuple[Grid, ...] = ()
    folded: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a benchmark's run is shown.

    `lead` is the sentence that matters most; `words` puts a verdict into words; `marks` maps a
    sample to what an analysis says of it; `levels` names the turns, `labels` the conditions and
    metrics; `lists` are tags of several values, with what stands between these; `scale` is the
    metric that the list of samples shows, by default the first; `given` stands over an answer in a
    history that no model of the run gave; `used` tables are set in the view's own way, and not
    printed again.
    """

    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    words: Reader
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Mapping[int, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)
    scale: str = ""
    given: str = "given, not the model's own"
    used: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What goes into one page: the runs (the first is the one to compare with) and their view.

    `cautions` tell what stands in the way of comparing the runs.
    """

    title: str
    runs: Sequence[FinishedRun]
    view: View
    tables: Sequence[Table]
    about: About
    cautions: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What every reader must know: the cautions, then what the runs themselves tell."""
        told = (note for run in self.runs for note in run.manifest.notes)
        alike = (
            f"{self.prefix(run)}{ALIKE}"
            for run in self.runs
            if any(ALIKE in table.notes for table in run.tables)
        )
        return tuple(dict.fromkeys([*self.cautions, *told, *alike]))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of all runs."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.manifest.conditions))

    def prefix(self, run: FinishedRun) -> str:
        """What goes before a name that is the run's, where there are several runs."""
        return f"{run.label}: " if len(self.runs) > 1 else ""
