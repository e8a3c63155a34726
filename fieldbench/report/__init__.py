"""From records to tables, comparisons and figures."""
