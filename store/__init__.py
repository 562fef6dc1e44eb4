"""The database: tables, statements and migrations. Callers see frozen values, never rows."""
