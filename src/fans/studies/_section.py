"""The section of a table on a page: the table, its curves, and what the records say of the paper's claims."""

from fans.report.sections import Section
from fans.runs import Ledger
from fans.studies._claims import judged
from fans.studies._report import About, curves_of, tabulate, values_of
from fans.studies.made_by import facts


def section(run: Ledger) -> Section | None:
    """Return what a page says of a table's run; None of a search for settings."""
    if run.plan["search"]:
        return None
    about, table = About.of(run), tabulate(run)
    values, curves = values_of(run.records()), curves_of(about, table)
    return Section(
        str(run.plan["study"]),
        about.title,
        claims=[judged(said, about, values) for said in about.claims],
        tables=[table],
        charts=[curves] if curves else [],
        facts=facts(run, about.labels, about.sizes),
    )
