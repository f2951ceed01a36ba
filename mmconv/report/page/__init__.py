"""The report as a page: one self-contained HTML file for a run, or for runs that are compared.

It shows what lies in the runs' folders and computes no score. `views` says what is shown of each
benchmark, `samples` reads and packs the conversations. `report.md` beside it is for terminals.
"""

from mmconv.report.page.build import write_comparison, write_page
from mmconv.report.page.views.convbench import lead_sentences

__all__ = ["lead_sentences", "write_comparison", "write_page"]
