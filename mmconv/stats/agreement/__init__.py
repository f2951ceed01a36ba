"""Agreement between raters of the same units: measures, and who is compared with whom.

Of two raters there are kappas, correlations and differences (`two_raters`), of more Fleiss' kappa
and Krippendorff's alpha (`many_raters`); `panel` has judges and people, and intervals.
"""
