"""The report as a page: one self-contained HTML file for a run, or for runs that are compared.

It shows what the runs' folders hold and computes no score. `charts` are the headline numbers,
`sections` everything behind them, `samples` reads and packs the conversations.
"""

from mmconv.report.page.build import write_comparison, write_page

__all__ = ["write_comparison", "write_page"]
