"""What people see: sentences, tables, figures and pages, from explanations alone."""
